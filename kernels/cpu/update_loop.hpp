#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector.hpp"
#include "kernels/cpu/update_pointers.hpp"

/// The loop that all element-wise optimizers share. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {

/// Calls rule(parameter, states, gradient) for elements [begin, end), sixteen at a time, and sets the gradient to zero. The rule
/// changes `parameter` and `states` in place. Each element is independent of the others, so the bits do not depend on where a range
/// begins.
template <int States, class Rule>
MILLRACE_INLINE void update_range(const UpdatePointers<States>& at, std::int64_t begin, std::int64_t end, const Rule& rule) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) {
    f32x16 parameter = load(at.parameter + i), states[state_places<States>];
    for (int s = 0; s < States; ++s) states[s] = s == 0 && at.narrow != nullptr ? load(at.narrow + i) : load(at.states[s] + i);
    rule(parameter, states, load(at.gradient + i));
    store(at.parameter + i, parameter);
    for (int s = 0; s < States; ++s) {
      if (s == 0 && at.narrow != nullptr)
        store(at.narrow + i, states[s]);
      else
        store(at.states[s] + i, states[s]);
    }
    store(at.gradient + i, f32x16{});
    if (at.copy != nullptr) store(at.copy + i, parameter);
  }
  if (const std::int64_t count = end - i; count > 0) {
    f32x16 parameter = load(at.parameter + i, count), states[state_places<States>];
    for (int s = 0; s < States; ++s)
      states[s] = s == 0 && at.narrow != nullptr ? load(at.narrow + i, count) : load(at.states[s] + i, count);
    rule(parameter, states, load(at.gradient + i, count));
    store(at.parameter + i, parameter, count);
    for (int s = 0; s < States; ++s) {
      if (s == 0 && at.narrow != nullptr)
        store(at.narrow + i, states[s], count);
      else
        store(at.states[s] + i, states[s], count);
    }
    store(at.gradient + i, f32x16{}, count);
    if (at.copy != nullptr) store(at.copy + i, parameter, count);
  }
}

/// √ of each lane.
MILLRACE_INLINE f32x16 square_root(f32x16 v) {
  float lane[16];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int i = 0; i < 16; ++i) lane[i] = __builtin_sqrtf(lane[i]);
  return load(lane);
}

}  // namespace millrace::kernels::cpu
