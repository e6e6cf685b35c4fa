#include "kernels/cpu/adam_pax_loops.hpp"

#include "kernels/cpu/update_loop.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

void adam_pax_range(const AdamPaxLoop& loop, std::int64_t begin, std::int64_t end) {
  const AdamPaxLoop l = loop;
  const auto rule = [&l](f32x16 & p, f32x16 * state, f32x16 gradient) __attribute__((always_inline)) {
    const f32x16 g = gradient * l.gradient_scale;
    state[0] = l.decay1 * state[0] + l.rest1 * g;
    state[1] = l.decay2 * state[1] + l.rest2 * g * g;
    p = p * l.keep - l.rate * state[0] / (square_root(state[1]) + l.epsilon);
  };
  update_range(l.at, begin, end, rule);
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
