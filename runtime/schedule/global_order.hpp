#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::runtime {

/// How the copies of a model share the microbatches of a step, the only place that decides it: they are dealt like cards. The j-th
/// microbatch of copy c of C has the number m = j · C + c in the step, and m belongs to part m mod A of A gradient sums. So the copies take
/// up their j-th microbatches in the order of the numbers, and every part belongs to one copy if C divides A.
class GlobalOrder {
 public:
  explicit GlobalOrder(int copies) : copies_(copies) {}

  [[nodiscard]] int copies() const noexcept { return copies_; }
  [[nodiscard]] std::int64_t microbatch(int copy, std::int64_t ordinal) const noexcept { return ordinal * copies_ + copy; }
  [[nodiscard]] int copy(std::int64_t microbatch) const noexcept { return static_cast<int>(microbatch % copies_); }
  [[nodiscard]] std::int64_t ordinal(std::int64_t microbatch) const noexcept { return microbatch / copies_; }
  /// How many of this many microbatches a copy has.
  [[nodiscard]] std::int64_t count(int copy, std::int64_t microbatches) const noexcept {
    return (microbatches - copy + copies_ - 1) / copies_;
  }
  /// The place of a part among those of its copy: the index of its gradient sum there.
  [[nodiscard]] int set_of_part(int part) const noexcept { return part / copies_; }
  [[nodiscard]] int set(std::int64_t microbatch, int parts) const noexcept { return set_of_part(static_cast<int>(microbatch % parts)); }

 private:
  int copies_;
};

/// The microbatches of one rank, which runs stages of one or several copies, numbered without gaps in the order of their numbers.
class RankMicrobatches {
 public:
  RankMicrobatches() : RankMicrobatches(GlobalOrder(1), {0}) {}
  RankMicrobatches(GlobalOrder order, std::vector<int> copies) : order_(order), copies_(std::move(copies)) {
    std::ranges::sort(copies_);
    const auto same = std::ranges::unique(copies_);
    copies_.erase(same.begin(), same.end());
  }

  /// The number of the rank's n-th microbatch.
  [[nodiscard]] std::int64_t number(std::int64_t n) const noexcept {
    const auto own = static_cast<std::int64_t>(copies_.size());
    return order_.microbatch(copies_[static_cast<std::size_t>(n % own)], n / own);
  }
  /// How many microbatches below `number` the rank has; of a microbatch of its own, its n.
  [[nodiscard]] std::int64_t before(std::int64_t number) const noexcept {
    std::int64_t count = 0;
    for (const int copy : copies_) count += std::max<std::int64_t>(order_.count(copy, number), 0);
    return count;
  }

 private:
  GlobalOrder order_;
  std::vector<int> copies_;  // ascending
};

}  // namespace millrace::runtime
