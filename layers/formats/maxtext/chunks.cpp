#include "layers/formats/maxtext/chunks.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>

namespace millrace::layers {
namespace {

/// The place, counted from 1, of the first entry with this value; 0 if there is none.
template <class Kind>
std::int64_t first_place(const std::vector<Kind>& list, Kind value) {
  const auto at = std::ranges::find(list, value);
  return at == list.end() ? 0 : at - list.begin() + 1;
}

}  // namespace

void read_maxtext_chunks(runtime::JsonReader& reader, ModelConfig& model) {
  const std::int64_t without = reader.integer("nope_layer_interval", -1, 1LL << 40).value_or(-1);
  const std::int64_t chunk = reader.integer("chunk_attn_window_size", 0, 1LL << 40).value_or(0);
  const auto layers = static_cast<std::size_t>(model.layers);
  model.layer_positions.assign(layers, LayerPositions::rotary);
  model.layer_kinds.assign(layers, LayerKind::chunked);
  for (std::int64_t i = without - 1; without > 0 && i < model.layers; i += without) {
    model.layer_positions[static_cast<std::size_t>(i)] = LayerPositions::none;
    model.layer_kinds[static_cast<std::size_t>(i)] = LayerKind::full;
  }
  if (first_place(model.layer_positions, LayerPositions::none) == 0) model.layer_positions.clear();
  if (first_place(model.layer_kinds, LayerKind::chunked) == 0) {
    model.layer_kinds.clear();
  } else {
    if (chunk == 0) reader.refuse("chunk_attn_window_size", "expected 1 or more: layers with a rotation attend to their own chunk");
    model.attention_chunk = chunk;
  }
  model.use_qk_norm = reader.boolean("use_qk_norm").value_or(false);
  model.attn_temperature_tuning = reader.boolean("temperature_tuning").value_or(false);
  const std::int64_t step = reader.size("interleave_moe_layer_step", 1LL << 40, 1);
  if (step == 1) return;
  model.mlp_kinds.assign(layers, MlpKind::dense);
  for (std::int64_t i = step - 1; i < model.layers; i += step) model.mlp_kinds[static_cast<std::size_t>(i)] = MlpKind::sparse;
}

void write_maxtext_chunks(runtime::OrderedJson& json, const ModelConfig& model) {
  const std::int64_t without = first_place(model.layer_positions, LayerPositions::none);
  // Without a layer of the other kind any step beyond the last layer says so.
  const std::int64_t sparse = model.mlp_kinds.empty() ? 1 : first_place(model.mlp_kinds, MlpKind::sparse);
  const std::int64_t step = sparse > 0 ? sparse : model.layers + 1;
  json["nope_layer_interval"] = without > 0 ? without : -1;
  json["chunk_attn_window_size"] = model.attention_chunk;
  json["use_qk_norm"] = model.use_qk_norm;
  json["temperature_tuning"] = model.attn_temperature_tuning;
  json["interleave_moe_layer_step"] = step;
  // Layers are scanned in cycles of so many, which is not done here.
  json["inhomogeneous_layer_cycle_interval"] = std::lcm(std::max<std::int64_t>(without, 1), step);
}

}  // namespace millrace::layers
