#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"
#include "kernels/cpu/update_pointers.hpp"

namespace millrace::kernels::cpu {

/// Arguments of one update.
template <int States>
struct SgdLoop {
  UpdatePointers<States> at;  // states: the momentum buffer, if any
  float rate, momentum, decay, gradient_scale;
  bool nesterov;
};

MILLRACE_CPU_KERNEL(sgd_range, void(const SgdLoop<0>& loop, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(sgd_momentum_range, void(const SgdLoop<1>& loop, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
