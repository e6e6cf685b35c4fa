#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The gated MLP (Shazeer, arXiv 2002.05202): down(activation(gate(x)) · up(x)), x [T, width] → [T, width], or with the clamped gate of
/// `spec`. Weights under `module`: gate_proj and up_proj [spec.width, width], down_proj [width, spec.width] (.weight, optionally .bias),
/// and act_fn if the activation has learned numbers (layers/activation.hpp). Operations have `scope` in front of their names.
/// Labels: mlpwi_0 (gate), mlpwi_1 (up), mlpwo (result).
[[nodiscard]] runtime::ValueId gated_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, const MlpSpec& spec,
                                         const std::string& module, const std::string& scope = "mlp");

/// What `spec` makes of gate and up [T, F] → same. An activation's learned numbers are `<module>.act_fn`; `name` is the operation's.
[[nodiscard]] runtime::ValueId gated(runtime::ProgramBuilder& builder, const MlpSpec& spec, runtime::ValueId gate, runtime::ValueId up,
                                     const std::string& module, const std::string& name);

}  // namespace millrace::layers
