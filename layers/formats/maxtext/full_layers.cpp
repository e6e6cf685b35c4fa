#include "layers/formats/maxtext/full_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

namespace millrace::layers {

void read_maxtext_full_layers(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  if (!file.full_layers) return;
  const std::int64_t head_dim = reader.integer("global_head_dim", 0, 1 << 16).value_or(0);
  const std::int64_t kv_heads = reader.integer("global_num_kv_heads", 0, 1 << 16).value_or(0);
  if (head_dim % 2 != 0) reader.refuse("global_head_dim", "expected an even number");
  if (kv_heads > 0 && model.heads % kv_heads != 0)
    reader.refuse("global_num_kv_heads", fmt::format("expected 0 or a divisor of num_query_heads = {}", model.heads));
  model.global_head_dim = head_dim == model.head_dim ? 0 : head_dim;
  model.global_kv_heads = kv_heads == model.kv_heads ? 0 : kv_heads;
  if (model.rope.kind != RopeKind::none || model.rope_interleaved) reader.refuse("rope_type", "supported is \"default\"");
  // Without a base of their own, layers of either kind rotate by rope_max_timescale.
  if (model.rope_local.theta <= 0) model.rope_local.theta = model.rope.theta;
  const double theta = reader.number("global_rope_max_timescale", -1, 1e15).value_or(-1);
  if (theta > 0 && theta < 1) reader.refuse("global_rope_max_timescale", "expected 1 or more, or -1");
  if (theta > 0) model.rope.theta = theta;
  model.rope.kind = RopeKind::proportional;
  model.rope.proportion = reader.number("global_rope_proportion", 0, 1).value_or(0.25);
}

void write_maxtext_full_layers(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.full_layers) return;
  json["global_head_dim"] = model.global_head_dim;
  json["global_num_kv_heads"] = model.global_kv_heads;
  json["global_rope_max_timescale"] = model.rope.theta;
  json["global_rope_proportion"] = model.rope.kind == RopeKind::proportional ? model.rope.proportion : 1.0;
}

void read_maxtext_per_layer_inputs(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  if (!file.per_layer_inputs) return;
  model.per_layer_input_size = reader.integer("hidden_size_per_layer_input", 1, 1 << 20).value_or(0);
  if (model.per_layer_input_size == 0) reader.refuse("hidden_size_per_layer_input", "expected 1 or more");
  model.per_layer_vocab_size = reader.size("vocab_size_per_layer_input", 1 << 26);
  model.kv_shared_layers = reader.integer("num_kv_shared_layers", 0, max_layers).value_or(0);
  const std::int64_t own = model.layers - model.kv_shared_layers;
  const auto donors = std::span(model.layer_kinds).first(static_cast<std::size_t>(std::max<std::int64_t>(own, 0)));
  const auto has_donor = [&](LayerKind kind) { return std::ranges::find(donors, kind) != donors.end(); };
  if (model.kv_shared_layers > 0 && !std::ranges::all_of(model.layer_kinds, has_donor))
    reader.refuse("num_kv_shared_layers",
                  fmt::format("which leaves {} of {} layers with keys of their own: expected a sliding and a full one",
                              std::max<std::int64_t>(own, 0), model.layers));
  model.double_wide_mlp = reader.boolean("use_double_wide_mlp").value_or(false) && model.kv_shared_layers > 0;
}

void write_maxtext_per_layer_inputs(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.per_layer_inputs) return;
  json["hidden_size_per_layer_input"] = model.per_layer_input_size;
  json["vocab_size_per_layer_input"] = model.per_layer_vocab_size;
  json["num_kv_shared_layers"] = model.kv_shared_layers;
  json["use_double_wide_mlp"] = model.double_wide_mlp;
}

const std::vector<LayerKind>& kinds_under_name(const MaxTextFile& file, const std::string& name) {
  const auto found = file.kinds_by_name.find(name);
  return found == file.kinds_by_name.end() ? file.kinds : found->second;
}

std::string name_with_kinds(const MaxTextFile& file, const ModelConfig& model) {
  const auto fits = [&](const std::string& name) {
    const std::vector<LayerKind>& kinds = kinds_under_name(file, name);
    for (std::size_t i = 0; i < model.layer_kinds.size(); ++i)
      if (model.layer_kinds[i] != kinds[i % kinds.size()]) return false;
    return true;
  };
  const auto found = std::ranges::find_if(file.model_names, fits);
  return found == file.model_names.end() ? file.model_names.front() : *found;
}

}  // namespace millrace::layers
