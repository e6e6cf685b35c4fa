#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// The loop of kernels/rope.hpp over tokens [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct Rope {
  const T* x;
  const std::int32_t* positions;
  const float* inverse_frequencies;
  T* y;
  std::int64_t heads;
  std::int64_t width;  // D
  std::int64_t half;   // R/2, the pairs of a head
  float direction;
  float factor;
  bool interleaved;
  std::int64_t rotated_begin = 0;  // index in a head of the first feature that is rotated: 0, or the number of the others
};

MILLRACE_CPU_KERNEL(rope_f32, void(const Rope<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(rope_bf16, void(const Rope<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
