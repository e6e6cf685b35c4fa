#include "layers/models/boundary.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

constexpr const char* boundary_component = "layers.model";

std::string type_text(const runtime::ValueType& type) {
  return std::string(kernels::to_string(type.dtype)) + " " + kernels::to_string(type.shape);
}

}  // namespace

std::vector<StreamType> streams_before(const ModelFamily& family, const ModelSpec& model, int layer,
                                       const runtime::ProgramBuilder& builder) {
  std::vector<StreamType> types;
  std::vector<StreamSpec> streams = family.streams(model, layer);
  for (int module = 1; module <= layer - model.decoder_layers(); ++module)
    streams.push_back({.name = mtp_stream(module), .axes = {model.width}});
  for (const StreamSpec& stream : streams) {
    runtime::ValueType type{stream.dtype.value_or(builder.options().compute), {builder.tokens_dimension()}};
    for (const std::int64_t size : stream.axes) type.shape.push_back(size);
    MILLRACE_CHECK(std::ranges::find(types, stream.name, &StreamType::name) == types.end(), ExitCode::internal, boundary_component,
                   "{}: two streams before layer {} are named '{}'", family.traits().name, layer, stream.name);
    types.push_back({stream.name, type});
  }
  MILLRACE_CHECK(std::ranges::any_of(types, [](const StreamType& stream) { return runtime::has_gradient(stream.type); }),
                 ExitCode::internal, boundary_component, "{}: no stream before layer {} has a gradient, expected one of f32 or bf16",
                 family.traits().name, layer);
  return types;
}

Streams receive(runtime::ProgramBuilder& builder, const std::vector<StreamType>& types) {
  Streams streams;
  for (const StreamType& stream : types) streams.set(stream.name, builder.boundary_in(stream.name, stream.type));
  return streams;
}

Streams hand_on(runtime::ProgramBuilder& builder, const Streams& streams, const std::vector<StreamType>& expected, const std::string& from,
                const std::string& to) {
  Streams result;
  for (const StreamType& stream : expected) {
    const auto found = std::ranges::find(streams.all(), stream.name, &std::pair<std::string, runtime::ValueId>::first);
    MILLRACE_CHECK(found != streams.all().end(), ExitCode::internal, boundary_component, "{} does not hand on '{}', {} expects it as {}",
                   from, stream.name, to, type_text(stream.type));
    runtime::ValueId value = found->second;
    MILLRACE_CHECK(builder.type(value) == stream.type, ExitCode::internal, boundary_component, "{} hands on '{}' as {}, {} expects {}",
                   from, stream.name, type_text(builder.type(value)), to, type_text(stream.type));
    const bool again = std::ranges::any_of(result.all(), [&](const auto& other) { return other.second == value; });
    if (again) value = runtime::copy(builder, value, "stream." + stream.name);
    builder.hand_on(value);
    result.set(stream.name, value);
  }
  for (const auto& [name, value] : streams.all())
    MILLRACE_CHECK(std::ranges::find(expected, name, &StreamType::name) != expected.end(), ExitCode::internal, boundary_component,
                   "{} hands on '{}', which {} does not expect", from, name, to);
  return result;
}

}  // namespace millrace::layers
