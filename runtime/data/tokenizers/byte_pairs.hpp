#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::runtime {

/// The merges of a byte-pair encoding: which two adjacent pieces become one, and in which order of priority (Sennrich, Haddow,
/// Birch, "Neural machine translation of rare words with subword units", ACL 2016). Filled once, then read-only from any thread.
class BytePairs {
 public:
  /// Reserves room for this number of pairs.
  explicit BytePairs(std::size_t pairs);

  /// Declares that `left` followed by `right` may become `merged`; pairs of lower rank go first. Ids and rank are in 0 … 2^31-2.
  /// Returns false if the pair was added before.
  bool add(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t merged);

  /// Working memory of merge(), kept between calls.
  struct Scratch {
    std::vector<std::int32_t> next, previous, rank;
    std::vector<std::uint64_t> queue;
  };

  /// Merges adjacent entries of `pieces` until no mergeable pair is left, always the pair of the lowest rank, the leftmost among
  /// equals. Returns the number of remaining pieces, which are at the front. O(n log n); n < 2^31.
  [[nodiscard]] std::size_t merge(std::span<std::int32_t> pieces, Scratch& scratch) const;

 private:
  struct Pair {
    std::uint64_t key = empty;
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  static constexpr std::int32_t never = INT32_MAX;

  [[nodiscard]] const Pair* find(std::int32_t left, std::int32_t right) const noexcept;
  [[nodiscard]] std::int32_t rank_of(std::int32_t left, std::int32_t right) const noexcept;
  [[nodiscard]] std::size_t merge_few(std::span<std::int32_t> pieces) const noexcept;
  [[nodiscard]] std::size_t merge_many(std::span<std::int32_t> pieces, Scratch& scratch) const;

  std::vector<Pair> table_;  // open addressing, at most half full
  std::uint64_t mask_ = 0;
};

}  // namespace millrace::runtime
