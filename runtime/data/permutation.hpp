#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/base/mix.hpp"

namespace millrace::runtime {

/// A keyed permutation of 0 … n-1 that needs no table: a balanced Feistel network over the next power of four, iterated until the
/// value is below n (fewer than four iterations on average). Start-up and resume cost nothing, and any element is a pure function
/// of (key, index). Black and Rogaway, "Ciphers with arbitrary finite domains" (CT-RSA 2002), section 4.
class Permutation {
 public:
  /// n >= 1.
  Permutation(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) noexcept : n_(static_cast<std::uint64_t>(n)) {
    half_bits_ = n > 1 ? (std::bit_width(n_ - 1) + 1) / 2 : 0;
    std::uint64_t state = mix(seed) ^ mix(epoch + golden_ratio);
    for (auto& key : keys_) key = mix(state += golden_ratio);
  }

  /// 0 <= index < n. The result is in the same range, and no two indices map to the same value.
  [[nodiscard]] std::int64_t operator()(std::int64_t index) const noexcept {
    auto value = static_cast<std::uint64_t>(index);
    do value = encrypt(value);
    while (value >= n_);
    return static_cast<std::int64_t>(value);
  }

 private:
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t value) const noexcept {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t n_;
  int half_bits_;
  std::array<std::uint64_t, 8> keys_{};
};

}  // namespace millrace::runtime
