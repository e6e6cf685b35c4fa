#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector.hpp"

/// What amx_tiles.hpp does, in plain C++: with the bits of the processor's tiles, on a processor without them, slowly. Only for sources of
/// millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

/// A number below the smallest normal one counts as zero, with its sign.
MILLRACE_INLINE float without_denormals(float x) { return __builtin_fabsf(x) < 1.17549435e-38F ? __builtin_copysignf(0.0F, x) : x; }

class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int tile>
  void clear() {
    __builtin_memset(bytes_[tile], 0, sizeof bytes_[tile]);
  }
  template <int tile>
  void load(const void* from, std::int64_t step) {
    for (std::int64_t row = 0; row < 16; ++row) __builtin_memcpy(bytes_[tile][row], static_cast<const char*>(from) + row * step, 64);
  }
  template <int tile>
  void store(void* to, std::int64_t step) const {
    for (std::int64_t row = 0; row < 16; ++row) __builtin_memcpy(static_cast<char*>(to) + row * step, bytes_[tile][row], 64);
  }
  /// The even and the odd products are summed each by itself, from zero, with one rounding per step; then their sum is added. Results
  /// below the smallest normal number are zero, whatever the thread's rounding mode says.
  template <int sum, int a, int b>
  void multiply_add() {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        float part[2] = {0.0F, 0.0F};
        for (int pair = 0; pair < 16; ++pair)
          for (int odd = 0; odd < 2; ++odd)
            part[odd] = without_denormals(__builtin_fmaf(element(a, i, 2 * pair + odd), element(b, pair, 2 * j + odd), part[odd]));
        float* const to = reinterpret_cast<float*>(bytes_[sum][i]) + j;
        *to = without_denormals(without_denormals(*to) + without_denormals(part[0] + part[1]));
      }
  }

 private:
  [[nodiscard]] float element(int tile, int row, int column) const {
    std::uint16_t half;
    __builtin_memcpy(&half, bytes_[tile][row] + 2 * column, sizeof half);
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return without_denormals(value);
  }

  alignas(64) char bytes_[8][16][64] = {};
};

/// As in amx_tiles.hpp.
MILLRACE_INLINE void store_rounded(BFloat16* to, f32x16 low, f32x16 high) {
  for (int i = 0; i < 16; ++i) low[i] = without_denormals(low[i]);
  for (int i = 0; i < 16; ++i) high[i] = without_denormals(high[i]);
  store(to, low);
  store(to + 16, high);
}

}  // namespace
}  // namespace millrace::kernels::cpu
