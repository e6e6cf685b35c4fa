#include "layers/mlp.hpp"

#include "layers/activation.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

/// Names of the operations. Recordings contain them, so they must not change.
const char* glu_name(kernels::Activation activation) {
  if (activation == kernels::Activation::silu) return "swiglu";
  return activation == kernels::Activation::gelu ? "geglu" : "glu";
}

}  // namespace

runtime::ValueId gated(runtime::ProgramBuilder& builder, const MlpSpec& spec, runtime::ValueId gate, runtime::ValueId up,
                       const std::string& module, const std::string& name) {
  if (spec.clamp) return runtime::clamped_glu(builder, gate, up, *spec.clamp, name);
  const auto learned = activation_parameters(builder, spec.activation, module + ".act_fn");
  return runtime::glu(builder, spec.activation, gate, up, name, learned);
}

runtime::ValueId gated_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, const MlpSpec& spec,
                           const std::string& module, const std::string& scope) {
  const auto project = [&](runtime::ValueId from, const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    const auto weight = builder.parameter(module + "." + name + ".weight", {outputs, inputs});
    const auto y = runtime::linear(builder, from, weight, scope + "." + name);
    if (!spec.bias) return y;
    return runtime::add_bias(builder, y, builder.parameter(module + "." + name + ".bias", {outputs}, runtime::in_f32),
                             scope + "." + name + "_bias");
  };
  const auto gate = project(x, "gate_proj", spec.width, width);
  const auto up = project(x, "up_proj", spec.width, width);
  const auto hidden = gated(builder, spec, gate, up, module, scope + "." + glu_name(spec.activation));
  const auto down = project(hidden, "down_proj", width, spec.width);
  builder.label(gate, "mlpwi_0");
  builder.label(up, "mlpwi_1");
  builder.label(down, "mlpwo");
  return down;
}

}  // namespace millrace::layers
