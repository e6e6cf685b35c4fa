#pragma once

#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// The instruction set that the compiler targeted for the loops in use, according to its predefined macros.
MILLRACE_CPU_KERNEL(loops_isa, Isa());

}  // namespace millrace::kernels::cpu
