#pragma once

#include <cstdint>
#include <string>

#include "kernels/base/activation.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The gated MLP (Shazeer, arXiv 2002.05202): down(activation(gate(x)) · up(x)), x [T, width] → [T, width].
/// Weights under `module`: gate_proj and up_proj [intermediate, width], down_proj [width, intermediate].
/// Labels: mlpwi_0 (gate), mlpwi_1 (up), mlpwo (result).
[[nodiscard]] runtime::ValueId gated_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, kernels::Activation activation,
                                         std::int64_t width, std::int64_t intermediate, const std::string& module);

}  // namespace millrace::layers
