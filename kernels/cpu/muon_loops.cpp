#include "kernels/cpu/muon_loops.hpp"

#include "kernels/cpu/simd/vector.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void move_momentum(const MuonMomentum& rule, float* gradient, T* momentum, std::int64_t begin, std::int64_t end) {
  const MuonMomentum r = rule;
  const auto next = [&r](f32x16 & g, f32x16 & m) __attribute__((always_inline)) {
    const f32x16 scaled = g * r.gradient_scale;
    m = r.beta * m + r.rest * scaled;
    g = r.momentum_share * m + r.gradient_share * scaled;
  };
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) {
    f32x16 g = load(gradient + i), m = load(momentum + i);
    next(g, m);
    store(gradient + i, g);
    store(momentum + i, m);
  }
  if (const std::int64_t count = end - i; count > 0) {
    f32x16 g = load(gradient + i, count), m = load(momentum + i, count);
    next(g, m);
    store(gradient + i, g, count);
    store(momentum + i, m, count);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void muon_momentum_f32(const MuonMomentum& rule, float* gradient, float* momentum, std::int64_t begin, std::int64_t end) {
  move_momentum(rule, gradient, momentum, begin, end);
}
void muon_momentum_bf16(const MuonMomentum& rule, float* gradient, BFloat16* momentum, std::int64_t begin, std::int64_t end) {
  move_momentum(rule, gradient, momentum, begin, end);
}

void divide_range(float* x, float divisor, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(x + i, load(x + i) / divisor);
  if (i < end) store(x + i, load(x + i, end - i) / divisor, end - i);
}

void muon_polynomial_rows(const MuonPolynomial& rule, const float* gram, float* value, std::int64_t side, std::int64_t begin,
                          std::int64_t end) {
  const MuonPolynomial r = rule;
  const std::int64_t last = end * side;
  std::int64_t i = begin * side;
  for (; i + 16 <= last; i += 16) store(value + i, r.b * load(gram + i) + r.c * load(value + i));
  if (i < last) store(value + i, r.b * load(gram + i, last - i) + r.c * load(value + i, last - i), last - i);
  for (std::int64_t row = begin; row < end; ++row) value[row * side + row] += r.a;
}

void muon_step_range(const MuonStep& rule, const MuonStepPointers& at, std::int64_t begin, std::int64_t end) {
  const MuonStep r = rule;
  const MuonStepPointers p = at;
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) {
    const f32x16 parameter = load(p.parameter + i) * r.keep - r.rate * load(p.x + i);
    store(p.parameter + i, parameter);
    store(p.gradient + i, f32x16{});
    if (p.copy != nullptr) store(p.copy + i, parameter);
  }
  if (const std::int64_t count = end - i; count > 0) {
    const f32x16 parameter = load(p.parameter + i, count) * r.keep - r.rate * load(p.x + i, count);
    store(p.parameter + i, parameter, count);
    store(p.gradient + i, f32x16{}, count);
    if (p.copy != nullptr) store(p.copy + i, parameter, count);
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
