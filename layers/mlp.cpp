#include "layers/mlp.hpp"

#include "layers/activation.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

/// Names of the operations. Recordings contain them, so they must not change.
const char* glu_name(kernels::Activation activation) {
  if (activation == kernels::Activation::silu) return "mlp.swiglu";
  return activation == kernels::Activation::gelu ? "mlp.geglu" : "mlp.glu";
}

}  // namespace

runtime::ValueId gated_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, const MlpSpec& spec,
                           const std::string& module) {
  const auto project = [&](runtime::ValueId from, const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    const auto weight = builder.parameter(module + "." + name + ".weight", {outputs, inputs});
    const auto y = runtime::linear(builder, from, weight, "mlp." + name);
    if (!spec.bias) return y;
    return runtime::add_bias(builder, y, builder.parameter(module + "." + name + ".bias", {outputs}, runtime::in_f32),
                             "mlp." + name + "_bias");
  };
  const auto gate = project(x, "gate_proj", spec.width, width);
  const auto up = project(x, "up_proj", spec.width, width);
  const auto learned = activation_parameters(builder, spec.activation, module + ".act_fn");
  const auto hidden = runtime::glu(builder, spec.activation, gate, up, glu_name(spec.activation), learned);
  const auto down = project(hidden, "down_proj", width, spec.width);
  builder.label(gate, "mlpwi_0");
  builder.label(up, "mlpwi_1");
  builder.label(down, "mlpwo");
  return down;
}

}  // namespace millrace::layers
