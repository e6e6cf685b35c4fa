#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

/// transformers refuses a layer that shares keys and has no earlier layer of its kind to share them with.
bool have_donors(const ModelConfig& model, std::int64_t own) {
  const auto kinds = std::span(model.layer_kinds).first(model.layer_kinds.empty() ? 0 : static_cast<std::size_t>(own));
  return std::ranges::all_of(model.layer_kinds, [&](LayerKind kind) { return std::ranges::find(kinds, kind) != kinds.end(); });
}

}  // namespace

void read_per_layer_inputs(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.per_layer_inputs) return;
  const auto number = [&](const char* key, std::int64_t max, std::int64_t missing) {
    const auto found = reader.integer(key, 0, max);
    if (!found && reader.has(key)) reader.refuse(key, "expected a number");
    return found.value_or(missing);
  };
  model.per_layer_input_size = number("hidden_size_per_layer_input", 1 << 20, file.per_layer_inputs->size);
  model.per_layer_vocab_size = number("vocab_size_per_layer_input", 1 << 26, file.per_layer_inputs->vocab_size);
  if (model.per_layer_input_size > 0 && model.per_layer_vocab_size == 0)
    reader.refuse("vocab_size_per_layer_input",
                  fmt::format("expected 1 or more with hidden_size_per_layer_input = {}", model.per_layer_input_size));
  if (model.per_layer_input_size == 0) model.per_layer_vocab_size = 0;
  model.kv_shared_layers = number("num_kv_shared_layers", max_layers, 0);
  const std::int64_t own = model.layers - model.kv_shared_layers;
  if (model.kv_shared_layers > 0 && (own < 1 || !have_donors(model, own)))
    reader.refuse("num_kv_shared_layers",
                  fmt::format("which leaves {} of {} layers with keys of their own: expected one of each kind in layer_types",
                              std::max<std::int64_t>(own, 0), model.layers));
  model.double_wide_mlp = reader.boolean("use_double_wide_mlp").value_or(false) && model.kv_shared_layers > 0;
}

void write_per_layer_inputs(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.per_layer_inputs) return;
  json["hidden_size_per_layer_input"] = model.per_layer_input_size;
  json["vocab_size_per_layer_input"] = model.per_layer_input_size > 0 ? model.per_layer_vocab_size : model.vocab_size;
  json["num_kv_shared_layers"] = model.kv_shared_layers;
  json["use_double_wide_mlp"] = model.double_wide_mlp;
}

}  // namespace millrace::layers
