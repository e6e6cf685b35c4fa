#pragma once

#include <cstdint>

#include "kernels/base/mix.hpp"

namespace millrace::kernels {

/// Which features dropout keeps, for every device alike (kernels/dropout.hpp lists what the mask depends on). Under nvcc
/// constexpr functions run on the device too (--expt-relaxed-constexpr).
constexpr std::uint64_t dropout_key(std::int32_t sample, std::uint64_t site) noexcept {
  return splitmix(site) ^ splitmix(static_cast<std::uint64_t>(sample));
}

constexpr bool dropout_keeps(std::uint64_t key, float rate, std::int64_t feature) noexcept {
  const std::uint64_t word = splitmix(key + static_cast<std::uint64_t>(feature)) >> 40;
  return static_cast<float>(word) * 0x1p-24F >= rate;
}

}  // namespace millrace::kernels
