#include "layers/per_layer_inputs.hpp"

#include <cmath>
#include <numbers>

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId per_layer_inputs(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x,
                                  const PerLayerParameters& parameters, const kernels::RmsNormOptions& norm) {
  const auto part = static_cast<double>(model.per_layer_inputs->width), width = static_cast<double>(model.width);
  const auto looked_up = runtime::embedding(builder, builder.batch("tokens"), parameters.table, "per_layer_table");
  const auto identity = runtime::scale(builder, looked_up, std::sqrt(part), "per_layer_table_scale");
  const auto projected = parameters.input_major ? runtime::linear_input_major(builder, x, parameters.projection, "per_layer_projection")
                                                : runtime::linear(builder, x, parameters.projection, "per_layer_projection");
  const auto scaled = runtime::scale(builder, projected, 1 / std::sqrt(width), "per_layer_projection_scale");
  const auto context = runtime::rms_norm(builder, scaled, parameters.norm, norm, "per_layer_projection_norm");
  const auto sum = runtime::add(builder, context, identity, "per_layer_sum");
  return runtime::scale(builder, sum, 1 / std::numbers::sqrt2, "per_layer_inputs");
}

}  // namespace millrace::layers
