#include "layers/attention/maxtext_delta_net.hpp"

#include "layers/attention/gated_delta_net.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

using runtime::ValueId;

ValueId maxtext_delta_net(runtime::ProgramBuilder& builder, ValueId x, std::int64_t width, const DeltaNetSpec& spec, double norm_epsilon,
                          const std::string& layer, const std::string& module) {
  const std::string path = layer + "." + module + ".";
  const auto project = [&](ValueId from, const char* name, std::int64_t inputs, std::int64_t outputs) {
    return runtime::linear_input_major(builder, from, builder.parameter(path + name + ".kernel", {inputs, outputs}), module + "." + name);
  };
  const auto vector = [&](const char* name, std::int64_t size) { return builder.parameter(path + name, {size}, runtime::in_f32); };
  const ValueId qkvz = project(x, "in_proj_qkvz", width, spec.channels() + spec.value_width());
  const DeltaNetInputs inputs = ungrouped(builder, qkvz, project(x, "in_proj_ba", width, 2 * spec.value_heads), spec, module);
  const DeltaNetWeights weights{
      builder.parameter(path + "conv1d.kernel", {spec.channels(), spec.taps},
                        {.dtype = kernels::DType::f32, .stored = {.shape = {spec.taps, 1, spec.channels()}, .transposed = true}}),
      vector("A_log", spec.value_heads), vector("dt_bias", spec.value_heads), vector("norm.rms_norm.scale", spec.value_head_dim)};
  const ValueId mixed = delta_net(builder, inputs, weights, spec, {.epsilon = static_cast<float>(norm_epsilon)}, module);
  const ValueId out = project(mixed, "out_proj", spec.value_width(), width);
  builder.label(out, "out_proj");
  return out;
}

}  // namespace millrace::layers
