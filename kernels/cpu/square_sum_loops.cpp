#include "kernels/cpu/square_sum_loops.hpp"

#include "kernels/cpu/vector.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

double square_sum_chunk(const float* x, std::int64_t count) {
  f64x8 low{}, high{};
  const auto add = [&](f32x16 v) __attribute__((always_inline)) {
    f64x8 half[2];
    float lane[16];
    __builtin_memcpy(lane, &v, sizeof v);
    for (int i = 0; i < 8; ++i) half[0][i] = lane[i], half[1][i] = lane[i + 8];
    low += half[0] * half[0];
    high += half[1] * half[1];
  };
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) add(load(x + i));
  if (i < count) add(load(x + i, count - i));
  const f64x8 lanes = low + high;
  double sum[8];
  __builtin_memcpy(sum, &lanes, sizeof lanes);
  for (int half = 4; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return sum[0];
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
