#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Lets every product of a stage read its weight packed, where the processor's kernels do: the rule becomes its packed one, the operand a
/// new value of the same parameter in that form. The rank packs each form once after it changed (ParameterStore).
void pack_weights(ProgramSet& set, kernels::Device device);

}  // namespace millrace::runtime
