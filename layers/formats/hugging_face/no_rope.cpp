#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;

/// Which layers have a rotation: those of no_rope_layers that are not 0, or all but every n-th. An empty list counts as missing.
std::vector<LayerPositions> read_positions(JsonReader& reader, const HuggingFaceNoRope& file, std::int64_t layers) {
  const std::int64_t every = reader.integer("no_rope_layer_interval", 1, 1LL << 40).value_or(file.interval);
  std::vector<LayerPositions> positions(static_cast<std::size_t>(layers), LayerPositions::rotary);
  for (std::int64_t i = every - 1; i < layers; i += every) positions[static_cast<std::size_t>(i)] = LayerPositions::none;
  const Json* list = reader.find("no_rope_layers");
  if (list == nullptr || (list->is_array() && list->empty())) return positions;
  const auto is_switch = [](const Json& entry) { return entry == 0 || entry == 1; };
  if (!list->is_array() || list->size() != positions.size() || !std::ranges::all_of(*list, is_switch))
    reader.refuse("no_rope_layers", fmt::format("expected a list of {} numbers, one per layer: 1 for a rotation, 0 for none", layers));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = (*list)[i] == 0 ? LayerPositions::none : LayerPositions::rotary;
  return positions;
}

/// Which layers attend to their own chunk: those of layer_types, or those with a rotation.
std::vector<LayerKind> read_chunked(JsonReader& reader, const std::vector<LayerPositions>& positions) {
  std::vector<LayerKind> kinds;
  for (const LayerPositions each : positions) kinds.push_back(each == LayerPositions::rotary ? LayerKind::chunked : LayerKind::full);
  const Json* list = reader.find("layer_types");
  if (list == nullptr) return kinds;
  if (!list->is_array() || list->size() != kinds.size())
    reader.refuse("layer_types", fmt::format("expected a list of {} strings, one per layer", kinds.size()));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Json& entry = (*list)[i];
    const bool chunked = entry == "chunked_attention";
    if (!chunked && entry != "full_attention") reader.refuse("layer_types", "supported are \"full_attention\" and \"chunked_attention\"");
    kinds[i] = chunked ? LayerKind::chunked : LayerKind::full;
  }
  return kinds;
}

/// A switch that files of version 4 also have as a number, which counts as true unless it is 0.
bool read_switch(JsonReader& reader, const char* key) {
  const Json* value = reader.find(key);
  if (value != nullptr && value->is_number_integer()) return *value != 0;
  return reader.boolean(key).value_or(!reader.has(key));
}

bool any_chunked(const ModelConfig& model) { return std::ranges::find(model.layer_kinds, LayerKind::chunked) != model.layer_kinds.end(); }

}  // namespace

void read_no_rope(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.no_rope) return;
  if (reader.has("is_causal") && !reader.boolean("is_causal").value_or(false)) reader.refuse("is_causal", "supported is true");
  model.layer_positions = read_positions(reader, *file.no_rope, model.layers);
  model.layer_kinds = read_chunked(reader, model.layer_positions);
  const auto chunk = reader.integer("attention_chunk_size", 1, 1LL << 40);
  const bool missing = !reader.has("attention_chunk_size");
  if (any_chunked(model)) {
    if (!chunk && !missing) reader.refuse("attention_chunk_size", "expected a number: some layers attend to their own chunk");
    model.attention_chunk = chunk.value_or(file.no_rope->chunk);
  } else {
    model.layer_kinds.clear();
  }
  if (std::ranges::find(model.layer_positions, LayerPositions::none) == model.layer_positions.end()) model.layer_positions.clear();
  model.use_qk_norm = read_switch(reader, "use_qk_norm");
  model.attn_temperature_tuning = read_switch(reader, "attn_temperature_tuning");
  model.attn_scale = reader.number("attn_scale", -1e9, 1e9).value_or(0.1);
  model.floor_scale = reader.size("floor_scale", 1LL << 40, 8192);
}

void write_no_rope(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.no_rope) return;
  json["no_rope_layer_interval"] = file.no_rope->interval;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.layers); ++i) {
    const bool turns = model.layer_positions.empty() || model.layer_positions[i] == LayerPositions::rotary;
    const bool chunked = !model.layer_kinds.empty() && model.layer_kinds[i] == LayerKind::chunked;
    json["no_rope_layers"].push_back(turns ? 1 : 0);
    json["layer_types"].push_back(chunked ? "chunked_attention" : "full_attention");
  }
  json["attention_chunk_size"] = any_chunked(model) ? model.attention_chunk : file.no_rope->chunk;
  json["use_qk_norm"] = model.use_qk_norm;
  json["attn_temperature_tuning"] = model.attn_temperature_tuning;
  json["attn_scale"] = model.attn_scale;
  json["floor_scale"] = model.floor_scale;
}

}  // namespace millrace::layers
