#include "kernels/cpu/adamw_loops.hpp"

#include "kernels/cpu/vector.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {
namespace {

MILLRACE_INLINE f32x16 square_root(f32x16 v) {
  float lane[16];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int i = 0; i < 16; ++i) lane[i] = __builtin_sqrtf(lane[i]);
  return load(lane);
}

}  // namespace

void adamw_range(const AdamwLoop& loop, std::int64_t begin, std::int64_t end) {
  const AdamwLoop l = loop;
  const auto update = [&l](f32x16 & p, f32x16 & m, f32x16 & v, f32x16 gradient) __attribute__((always_inline)) {
    const f32x16 g = gradient * l.gradient_scale;
    m = l.beta1 * m + l.rest1 * g;
    v = l.beta2 * v + l.rest2 * g * g;
    p = p * l.keep + l.negative_step_size * m / (square_root(v) / l.correction + l.epsilon);
  };
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) {
    f32x16 p = load(l.p + i), m = load(l.m + i), v = load(l.v + i);
    update(p, m, v, load(l.gradient + i));
    store(l.p + i, p);
    store(l.m + i, m);
    store(l.v + i, v);
    store(l.gradient + i, f32x16{});
    if (l.copy != nullptr) store(l.copy + i, p);
  }
  if (const std::int64_t count = end - i; count > 0) {
    f32x16 p = load(l.p + i, count), m = load(l.m + i, count), v = load(l.v + i, count);
    update(p, m, v, load(l.gradient + i, count));
    store(l.p + i, p, count);
    store(l.m + i, m, count);
    store(l.v + i, v, count);
    store(l.gradient + i, f32x16{}, count);
    if (l.copy != nullptr) store(l.copy + i, p, count);
  }
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
