#include "kernels/cpu/sgd_loops.hpp"

#include "kernels/cpu/update_loop.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

void sgd_range(const SgdLoop<0>& loop, std::int64_t begin, std::int64_t end) {
  const SgdLoop<0> l = loop;
  const auto rule = [&l](f32x16 & p, f32x16*, f32x16 gradient) __attribute__((always_inline)) {
    p = p - l.rate * (gradient * l.gradient_scale + l.decay * p);
  };
  update_range(l.at, begin, end, rule);
}

void sgd_momentum_range(const SgdLoop<1>& loop, std::int64_t begin, std::int64_t end) {
  const SgdLoop<1> l = loop;
  const auto rule = [&l](f32x16 & p, f32x16 * state, f32x16 gradient) __attribute__((always_inline)) {
    const f32x16 g = gradient * l.gradient_scale + l.decay * p;
    state[0] = l.momentum * state[0] + g;
    p = p - l.rate * (l.nesterov ? g + l.momentum * state[0] : state[0]);
  };
  update_range(l.at, begin, end, rule);
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
