#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"
#include "kernels/cpu/update_pointers.hpp"

namespace millrace::kernels::cpu {

/// Arguments of one update; the scalars are computed in double and rounded once.
struct AdamwLoop {
  UpdatePointers<2> at;  // states: m, v
  float keep;            // 1 − lr·decay
  float negative_step_size;
  float correction;  // √(1 − β2ᵗ)
  float beta1, rest1, beta2, rest2, epsilon, gradient_scale;
  bool nesterov;
  float momentum_step, gradient_step;  // with nesterov: lr·β1/(1−β1ᵗ⁺¹), lr·(1−β1)/(1−β1ᵗ)
};

MILLRACE_CPU_KERNEL(adamw_range, void(const AdamwLoop& loop, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
