#include "layers/models/layer_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

std::string keys_of_layer(int layer) { return fmt::format("keys_{}", layer); }
std::string values_of_layer(int layer) { return fmt::format("values_{}", layer); }

/// The layer whose keys and values `layer` attends to, if it has none of its own.
std::optional<int> donor_of(const LayerSpec& layer) {
  const auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
  return attention == nullptr ? std::nullopt : attention->keys_of;
}

/// The layers before `index` whose keys and values it or a later one attends to, in their order.
std::vector<int> donors_across(const ModelSpec& model, int index) {
  std::vector<int> donors;
  for (std::size_t i = static_cast<std::size_t>(index); i < model.layers.size(); ++i)
    if (const auto donor = donor_of(model.layers[i]); donor && *donor < index) donors.push_back(*donor);
  std::ranges::sort(donors);
  donors.erase(std::unique(donors.begin(), donors.end()), donors.end());  // Clang 14 has no std::ranges::unique with libstdc++
  return donors;
}

}  // namespace

std::vector<StreamSpec> streams_of_specs(const ModelSpec& model, int index) {
  std::vector<StreamSpec> streams{{.axes = {model.stream_width()}}};
  const std::int64_t behind = static_cast<std::int64_t>(model.layers.size()) - index;
  if (model.per_layer_inputs && behind > 0) streams.push_back({.name = per_layer_stream, .axes = {behind * model.per_layer_inputs->width}});
  for (const int donor : donors_across(model, index)) {
    const AttentionSpec& attention = model.layers[static_cast<std::size_t>(donor)].attention();
    for (const std::string& name : {keys_of_layer(donor), values_of_layer(donor)})
      streams.push_back({.name = name, .axes = {attention.kv_heads * attention.head_dim}});
  }
  return streams;
}

LayerStreams::LayerStreams(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in)
    : model_(model), index_(index), in_(in) {
  if (const auto donor = donor_of(model.layers.at(static_cast<std::size_t>(index))))
    keys_and_values_ = {in.at(keys_of_layer(*donor)), in.at(values_of_layer(*donor))};
  if (!model.per_layer_inputs) return;
  const std::int64_t width = model.per_layer_inputs->width, behind = static_cast<std::int64_t>(model.layers.size()) - index - 1;
  own_input_ = in.at(per_layer_stream);
  if (behind == 0) return;
  const auto parts = runtime::split(builder, own_input_, {width, behind * width}, "per_layer_split");
  own_input_ = parts[0], later_inputs_ = parts[1];
}

Streams LayerStreams::out(runtime::ValueId hidden) const {
  Streams out(hidden);
  if (later_inputs_.valid()) out.set(per_layer_stream, later_inputs_);
  for (const int donor : donors_across(model_, index_ + 1)) {
    const std::string keys = keys_of_layer(donor), values = values_of_layer(donor);
    out.set(keys, donor == index_ ? keys_and_values_.keys : in_.at(keys));
    out.set(values, donor == index_ ? keys_and_values_.values : in_.at(values));
  }
  return out;
}

}  // namespace millrace::layers
