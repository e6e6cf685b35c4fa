#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/base/activation.hpp"
#include "layers/parameter.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The learned numbers of an activation, as parameters f32 [1] with the names of transformers' modules under `module`: `.weight` of
/// prelu, `.alpha_p` and `.alpha_n` of xielu, none of any other.
[[nodiscard]] std::vector<runtime::ValueId> activation_parameters(runtime::ProgramBuilder& builder, kernels::Activation activation,
                                                                  const std::string& module);

/// The initial value of such a parameter, transformers' own (torch.nn.PReLU, XIELUActivation of activations.py); none for a parameter of
/// another kind. `module`: the last part of the activation's module name in the family, such as "act_fn".
[[nodiscard]] std::optional<Initial> initial_activation_parameter(const std::string& name, const std::string& module);

}  // namespace millrace::layers
