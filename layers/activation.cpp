#include "layers/activation.hpp"

namespace millrace::layers {

using kernels::Activation;

std::vector<runtime::ValueId> activation_parameters(runtime::ProgramBuilder& builder, Activation activation, const std::string& module) {
  const auto learned = [&](const char* name) { return builder.parameter(module + name, {1}, runtime::in_f32); };
  if (activation == Activation::prelu) return {learned(".weight")};
  if (activation != Activation::xielu) return {};
  const auto alpha_p = learned(".alpha_p"), alpha_n = learned(".alpha_n");
  return {alpha_p, alpha_n};
}

std::optional<Initial> initial_activation_parameter(const std::string& name, const std::string& module) {
  const auto is = [&](const char* which) { return name.ends_with("." + module + which); };
  const auto constant = [](float value) { return Initial{.kind = InitialKind::constant, .value = value}; };
  if (is(".weight")) return constant(0.25F);
  // log(e^0.8 − 1) and log(e^0.3 − 1), computed in bf16.
  if (is(".alpha_p")) return constant(0.2041015625F);
  if (is(".alpha_n")) return constant(-1.046875F);
  return std::nullopt;
}

}  // namespace millrace::layers
