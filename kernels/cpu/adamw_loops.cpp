#include "kernels/cpu/adamw_loops.hpp"

#include "kernels/cpu/update_loop.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

void adamw_range(const AdamwLoop& loop, std::int64_t begin, std::int64_t end) {
  const AdamwLoop l = loop;
  const auto rule = [&l](f32x16 & p, f32x16 * state, f32x16 gradient) __attribute__((always_inline)) {
    const f32x16 g = gradient * l.gradient_scale;
    state[0] = l.beta1 * state[0] + l.rest1 * g;
    state[1] = l.beta2 * state[1] + l.rest2 * g * g;
    p = p * l.keep + l.negative_step_size * state[0] / (square_root(state[1]) / l.correction + l.epsilon);
  };
  const auto nesterov_rule = [&l](f32x16 & p, f32x16 * state, f32x16 gradient) __attribute__((always_inline)) {
    const f32x16 g = gradient * l.gradient_scale;
    state[0] = l.beta1 * state[0] + l.rest1 * g;
    state[1] = l.beta2 * state[1] + l.rest2 * g * g;
    p = p * l.keep - (l.momentum_step * state[0] + l.gradient_step * g) / (square_root(state[1]) / l.correction + l.epsilon);
  };
  if (l.nesterov)
    update_range(l.at, begin, end, nesterov_rule);
  else
    update_range(l.at, begin, end, rule);
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
