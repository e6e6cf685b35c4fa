#pragma once

#include "kernels/cpu/simd/vector.hpp"

/// Loops of the form `for (i = 0; i < width; i += 16)`, or `i += 32`, whose last step may be short: `left` is width − i.
namespace millrace::kernels::cpu {

template <class T>
MILLRACE_INLINE f32x16 load_lanes(const T* p, std::int64_t left) {
  return left >= 16 ? load(p) : load(p, left);
}
template <class T>
MILLRACE_INLINE void store_lanes(T* p, f32x16 v, std::int64_t left) {
  if (left >= 16)
    store(p, v);
  else
    store(p, v, left);
}

/// The same for N vectors; `left` may be more than they hold.
template <class T, int N>
MILLRACE_INLINE void load_lanes(const T* p, f32x16 (&v)[N], std::int64_t left) {
  if (left >= 16 * N) return load_all(p, v);
  alignas(64) T lanes[16 * N] = {};
  __builtin_memcpy(lanes, p, static_cast<std::size_t>(left) * sizeof(T));
  load_all(lanes, v);
}
template <class T, int N>
MILLRACE_INLINE void store_lanes(T* p, const f32x16 (&v)[N], std::int64_t left) {
  if (left >= 16 * N) return store_all(p, v);
  alignas(64) T lanes[16 * N];
  store_all(lanes, v);
  __builtin_memcpy(p, lanes, static_cast<std::size_t>(left) * sizeof(T));
}

/// The value of v after it was stored as T.
template <class T>
MILLRACE_INLINE f32x16 round_to(f32x16 v) {
  if constexpr (sizeof(T) == 2)
    return round_to_bfloat16(v);
  else
    return v;
}

/// Σ a·b over `width` numbers; two sums, so that an addition need not wait for the previous one.
template <class T>
MILLRACE_INLINE float dot_product(const T* a, const T* b, std::int64_t width) {
  f32x16 even{}, odd{};
  for (std::int64_t d = 0; d < width; d += 32) {
    even += load_lanes(a + d, width - d) * load_lanes(b + d, width - d);
    if (d + 16 < width) odd += load_lanes(a + d + 16, width - d - 16) * load_lanes(b + d + 16, width - d - 16);
  }
  return sum_lanes(even + odd);
}

}  // namespace millrace::kernels::cpu
