#include "layers/engram.hpp"

#include <cmath>

#include "layers/engram_hash.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

using kernels::Shape;
using runtime::ValueId;

ValueId engram(runtime::ProgramBuilder& builder, const ModelSpec& model, const EngramSpec& spec, ValueId x, const std::string& module,
               const std::string& name) {
  const std::int64_t width = model.width, all = model.stream_width(), streams = all / width;
  const std::int64_t looked_up = static_cast<std::int64_t>(spec.hash.rows.size()) * spec.head_dim;
  const auto norm = [&](ValueId of, const std::string& path) {
    const ValueId scale = builder.parameter(module + "." + path + ".scale", {streams, width}, runtime::in_f32);
    return runtime::rms_norm(builder, of, scale, {.epsilon = static_cast<float>(model.norm.epsilon)}, name + "." + path);
  };
  // The axes of the stored kernel behind its inputs are those of its bias.
  const auto project = [&](ValueId from, const std::string& path, const Shape& stored, const Shape& stored_bias) {
    const std::int64_t outputs = stored_bias.elements();
    const ValueId kernel = builder.parameter(module + "." + path + ".kernel", {looked_up, outputs}, {.stored = {.shape = stored}});
    const ValueId bias =
        builder.parameter(module + "." + path + ".bias", {outputs}, {.dtype = kernels::DType::f32, .stored = {.shape = stored_bias}});
    return runtime::add_bias(builder, runtime::linear_input_major(builder, from, kernel, name + "." + path), bias,
                             name + "." + path + "_bias");
  };
  const ValueId rows = runtime::ngram_rows(builder, builder.batch("compressed"), spec.hash, name + ".ngram_rows");
  const ValueId table = builder.parameter(module + ".multi_head_embedding.embedding.embedding", {all_rows(spec.hash), spec.head_dim});
  const ValueId e = runtime::embedding(builder, rows, table, name + ".multi_head_embedding");
  const ValueId keys = norm(project(e, "key_proj", {looked_up, streams, width}, {streams, width}), "k_norm");
  const ValueId values = project(e, "value_proj", {looked_up, width}, {width});
  const ValueId gated = runtime::context_gate(builder, norm(x, "q_norm"), keys, values, name + ".gate");
  const ValueId taps = builder.parameter(module + ".short_conv.conv.kernel", {all, spec.taps},
                                         {.dtype = kernels::DType::f32, .stored = {.shape = {spec.taps, 1, all}, .transposed = true}});
  const kernels::ShortConvolutionOptions form{
      .silu = true, .reset_at_segments = false, .dilation = static_cast<std::int64_t>(spec.hash.multipliers.size())};
  const ValueId convolved =
      runtime::short_convolution(builder, norm(gated, "short_conv.norm"), taps, builder.batch("segments"), form, name + ".short_conv.conv");
  return runtime::add(builder, gated, convolved, name + ".sum");
}

std::optional<Initial> initial_engram_parameter(const std::string& name, const Shape& shape) {
  if (name.find(".engram.") == std::string::npos) return {};
  if (name.ends_with(".scale")) return Initial{InitialKind::ones};
  if (name.ends_with(".bias") || name.ends_with(".short_conv.conv.kernel")) return Initial{InitialKind::zeros};
  const bool table = name.ends_with(".embedding");
  return Initial{InitialKind::normal, 1.0 / std::sqrt(static_cast<double>(shape[table ? 1 : 0]))};
}

}  // namespace millrace::layers
