#include "layers/mlp.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId gated_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, kernels::Activation activation, std::int64_t width,
                           std::int64_t intermediate, const std::string& module) {
  using runtime::linear;
  const auto gate = linear(builder, x, builder.parameter(module + ".gate_proj.weight", {intermediate, width}), "mlp.gate_proj");
  const auto up = linear(builder, x, builder.parameter(module + ".up_proj.weight", {intermediate, width}), "mlp.up_proj");
  const auto hidden = runtime::glu(builder, activation, gate, up, activation == kernels::Activation::silu ? "mlp.swiglu" : "mlp.geglu");
  const auto down = linear(builder, hidden, builder.parameter(module + ".down_proj.weight", {width, intermediate}), "mlp.down_proj");
  builder.label(gate, "mlpwi_0");
  builder.label(up, "mlpwi_1");
  builder.label(down, "mlpwo");
  return down;
}

}  // namespace millrace::layers
