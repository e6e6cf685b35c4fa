#include "kernels/cpu/average_loops.hpp"

#include "kernels/cpu/simd/vector.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

void move_average_range(float share, const float* x, float* average, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) {
    const f32x16 value = load(average + i);
    store(average + i, value + share * (load(x + i) - value));
  }
  if (const std::int64_t count = end - i; count > 0) {
    const f32x16 value = load(average + i, count);
    store(average + i, value + share * (load(x + i, count) - value), count);
  }
}

void exchange_range(float* a, float* b, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
