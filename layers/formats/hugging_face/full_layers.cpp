#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;

/// The sizes of a layer's heads.
struct HeadSizes {
  std::int64_t head_dim = 0, kv_heads = 0;
  bool operator==(const HeadSizes&) const = default;
};

bool is_full_layer(const ModelConfig& model, std::int64_t layer) {
  return model.layer_kinds.empty() || model.layer_kinds[static_cast<std::size_t>(layer)] == LayerKind::full;
}

/// The layer that a key of per_layer_config names, if it is one with full attention.
std::optional<std::int64_t> full_layer_of(const std::string& key, const ModelConfig& model) {
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  if (error != std::errc() || end != key.data() + key.size() || layer < 0 || layer >= model.layers) return std::nullopt;
  return is_full_layer(model, layer) ? std::optional(layer) : std::nullopt;
}

/// What per_layer_config says of full layers; all other layers have the sizes of the whole file.
HeadSizes read_sizes_by_layer(JsonReader& reader, const ModelConfig& model) {
  const HeadSizes of_file{model.head_dim, model.kv_heads};
  std::vector<HeadSizes> sizes(static_cast<std::size_t>(model.layers), of_file);
  if (const auto layers = reader.object("per_layer_config")) {
    for (const auto& [key, value] : layers->value().items()) {
      const auto layer = full_layer_of(key, model);
      if (!layer)
        layers->refuse(key, fmt::format("supported are numbers of layers with full attention, of {} layers in all", model.layers));
      const JsonReader entry = layers->member(key);
      entry.only({"head_dim", "num_key_value_heads"});
      HeadSizes& own = sizes[static_cast<std::size_t>(*layer)];
      own.head_dim = entry.integer("head_dim", 1, 1 << 16).value_or(of_file.head_dim);
      own.kv_heads = entry.integer("num_key_value_heads", 1, 1 << 16).value_or(of_file.kv_heads);
    }
  }
  std::optional<HeadSizes> full;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!is_full_layer(model, layer)) continue;
    const HeadSizes& own = sizes[static_cast<std::size_t>(layer)];
    if (full && *full != own)
      reader.refuse("per_layer_config", fmt::format("expected the same head_dim and num_key_value_heads in all layers with full attention: "
                                                    "layer {} has {} and {}, an earlier one {} and {}",
                                                    layer, own.head_dim, own.kv_heads, full->head_dim, full->kv_heads));
    full = own;
  }
  return full.value_or(of_file);
}

}  // namespace

void read_full_layers(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.full_layers) return;
  model.share_kv = reader.boolean("attention_k_eq_v").value_or(false);
  const auto head_dim = reader.integer("global_head_dim", 1, 1 << 16), kv_heads = reader.integer("num_global_key_value_heads", 1, 1 << 16);
  // transformers reads num_global_key_value_heads only where keys are values, too.
  HeadSizes full{head_dim.value_or(file.full_layers->head_dim), model.share_kv ? kv_heads.value_or(model.kv_heads) : model.kv_heads};
  if (reader.has("per_layer_config")) {
    const HeadSizes other = full;
    full = read_sizes_by_layer(reader, model);
    const auto agree = [&](const char* key, bool given, std::int64_t outer, std::int64_t inner) {
      if (given && outer != inner) reader.refuse(key, fmt::format("which contradicts per_layer_config, where full layers have {}", inner));
    };
    agree("global_head_dim", head_dim.has_value(), other.head_dim, full.head_dim);
    agree("num_global_key_value_heads", kv_heads && model.share_kv, other.kv_heads, full.kv_heads);
  }
  const char* place = reader.has("per_layer_config") ? "per_layer_config" : "global_head_dim";
  if (full.head_dim % 2 != 0)
    reader.refuse(place, fmt::format("which makes heads of {} in full layers; expected an even number", full.head_dim));
  if (model.heads % full.kv_heads != 0)
    reader.refuse(reader.has("per_layer_config") ? place : "num_global_key_value_heads",
                  fmt::format("which makes {} heads of keys in full layers; expected a divisor of num_attention_heads = {}", full.kv_heads,
                              model.heads));
  model.global_head_dim = full.head_dim == model.head_dim ? 0 : full.head_dim;
  model.global_kv_heads = full.kv_heads == model.kv_heads ? 0 : full.kv_heads;
}

void write_full_layers(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.full_layers) return;
  const std::int64_t head_dim = model.global_head_dim > 0 ? model.global_head_dim : model.head_dim;
  const std::int64_t kv_heads = model.global_kv_heads > 0 ? model.global_kv_heads : model.kv_heads;
  json["attention_k_eq_v"] = model.share_kv;
  json["global_head_dim"] = head_dim;
  json["num_global_key_value_heads"] = model.share_kv && kv_heads != model.kv_heads ? Json(kv_heads) : Json(nullptr);
  auto& layers = json["per_layer_config"] = runtime::OrderedJson::object();
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (is_full_layer(model, layer)) layers[std::to_string(layer)] = {{"head_dim", head_dim}, {"num_key_value_heads", kv_heads}};
}

}  // namespace millrace::layers
