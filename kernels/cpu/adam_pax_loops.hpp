#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"
#include "kernels/cpu/update_pointers.hpp"

namespace millrace::kernels::cpu {

/// Arguments of one update; the scalars are computed in double and rounded once.
struct AdamPaxLoop {
  UpdatePointers<2> at;  // states: m, v
  float keep;            // 1 − lr·decay
  float rate;
  float decay1, rest1, decay2, rest2;  // d(β1), 1 − d(β1), d(β2), 1 − d(β2)
  float epsilon, gradient_scale;
};

MILLRACE_CPU_KERNEL(adam_pax_range, void(const AdamPaxLoop& loop, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
