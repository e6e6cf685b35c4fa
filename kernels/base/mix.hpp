#pragma once

#include <cstdint>

namespace millrace {

inline constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15ULL;  // 2^64 ÷ φ: splitmix64's increment

/// splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every bit of the result depends on every bit of `x`.
/// 0 stays 0.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The first number of splitmix64 with this seed.
constexpr std::uint64_t splitmix(std::uint64_t seed) noexcept { return mix(seed + golden_ratio); }

}  // namespace millrace
