#include "layers/hyper_connections.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {

using runtime::ValueId;

ValueId as_streams(runtime::ProgramBuilder& builder, const ModelSpec& model, ValueId x) {
  return model.hyper_connections ? runtime::expand_streams(builder, x, model.hyper_connections->streams, "expand_streams") : x;
}

ValueId sum_of_streams(runtime::ProgramBuilder& builder, const ModelSpec& model, ValueId x) {
  return model.hyper_connections ? runtime::reduce_streams(builder, x, model.hyper_connections->streams, "reduce_streams") : x;
}

ValueId hyper_connection(runtime::ProgramBuilder& builder, const ModelSpec& model, ValueId streams, const std::string& module,
                         const std::string& name, const std::function<ValueId(ValueId)>& branch) {
  const kernels::HyperGatesOptions& options = model.hyper_connections.value();
  const std::int64_t k = options.streams, width = k * model.width, entries = residual_logits(options);
  const ValueId scale = builder.parameter(module + ".mhc_norm.scale", {width}, runtime::in_f32);
  const ValueId normed =
      runtime::rms_norm(builder, streams, scale, {.epsilon = static_cast<float>(model.norm.epsilon)}, name + ".mhc_norm");
  // α · (n · W) + β of one gate.
  const auto gate = [&](const std::string& which, std::int64_t count, const kernels::Shape& stored) {
    const std::string path = module + "." + which;
    const ValueId product =
        runtime::linear_input_major(builder, normed, builder.parameter(path + "_alpha", {width, count}), name + "." + which + "_alpha");
    const ValueId scaled = runtime::learned_scale(builder, product, builder.parameter(path + "_alpha_scale", {1}, runtime::in_f32),
                                                  name + "." + which + "_alpha_scale");
    const ValueId bias = builder.parameter(path + "_beta", {count}, {.dtype = kernels::DType::f32, .stored = {.shape = stored}});
    return runtime::add_bias(builder, scaled, bias, name + "." + which + "_beta");
  };
  const kernels::Shape map = options.lite ? kernels::Shape{entries} : kernels::Shape{k, k};
  const ValueId logits = runtime::join(builder, {gate("pre", k, {k}), gate("post", k, {k}), gate("res", entries, map)}, name + ".logits");
  const runtime::HyperGateParts gates = runtime::hyper_gates(builder, logits, options, name + ".gates");
  const ValueId result = branch(runtime::collect_streams(builder, streams, gates.pre, name + ".collect"));
  return runtime::spread_streams(builder, streams, result, gates.post, gates.map, name + ".spread");
}

}  // namespace millrace::layers
