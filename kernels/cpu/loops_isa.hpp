#pragma once

#include "kernels/cpu/isa.hpp"

namespace millrace::kernels::cpu {

/// The instruction set that the compiler was told to use for the loops that run, by what it says of itself.
MILLRACE_CPU_KERNEL(loops_isa, Isa());

}  // namespace millrace::kernels::cpu
