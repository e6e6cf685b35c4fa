#include "kernels/cpu/square_sum_loops.hpp"

#include "kernels/cpu/simd/vector.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {
double square_sum_chunk(const float* x, std::int64_t count) {
  f64x8 low{}, high{};
  const auto add = [&](f32x16 v) __attribute__((always_inline)) {
    const f64x8 first = __builtin_convertvector(lower_half(v), f64x8), second = __builtin_convertvector(upper_half(v), f64x8);
    low += first * first;
    high += second * second;
  };
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) add(load(x + i));
  if (i < count) add(load(x + i, count - i));
  return sum_lanes(low + high);
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
