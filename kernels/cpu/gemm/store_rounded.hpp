#pragma once

#include "kernels/cpu/simd/vector.hpp"

/// Only for sources of millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

/// Rounds 32 sums to bf16, to nearest and ties to even; numbers below the smallest normal one become zero.
MILLRACE_INLINE void store_rounded(BFloat16* to, f32x16 low, f32x16 high) {
  f32x16 both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low), "v"(high));
  __builtin_memcpy(to, &both, sizeof both);
}

}  // namespace
}  // namespace millrace::kernels::cpu
