#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

/// The kind that an entry of layer_types names. transformers also knows the names of older files.
LayerKind kind_of(const runtime::JsonReader& reader, const runtime::Json& entry) {
  if (entry == "linear_attention" || entry == "mamba") return LayerKind::linear;
  if (entry == "full_attention" || entry == "attention") return LayerKind::full;
  reader.refuse("layer_types", "supported by this family are \"linear_attention\" and \"full_attention\"");
}

}  // namespace

void read_linear_attention(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  const HuggingFaceDeltaNet& net = *file.delta_net;
  const auto size = [&](const char* key, std::int64_t max, std::int64_t missing) { return reader.integer(key, 1, max).value_or(missing); };
  model.linear_key_heads = size("linear_num_key_heads", 1 << 16, net.key_heads);
  model.linear_value_heads = size("linear_num_value_heads", 1 << 16, net.value_heads);
  model.linear_key_head_dim = size("linear_key_head_dim", 1 << 16, net.key_head_dim);
  model.linear_value_head_dim = size("linear_value_head_dim", 1 << 16, net.value_head_dim);
  model.linear_conv_kernel_dim = size("linear_conv_kernel_dim", kernels::max_convolution_taps, net.taps);
  if (model.linear_value_heads % model.linear_key_heads != 0)
    reader.refuse("linear_num_value_heads", fmt::format("expected a multiple of linear_num_key_heads = {}", model.linear_key_heads));
  // transformers does not read the key; the files of Qwen 3.5 have it.
  if (!reader.boolean("attn_output_gate").value_or(true)) reader.refuse("attn_output_gate", "supported is true: transformers has the gate");

  const runtime::Json* list = reader.find("layer_types");
  const std::int64_t every = reader.integer("full_attention_interval", 1, 1LL << 40).value_or(net.full_every);
  if (list != nullptr && (!list->is_array() || static_cast<std::int64_t>(list->size()) != model.layers))
    reader.refuse("layer_types", fmt::format("expected a list of {} strings, one per layer", model.layers));
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const LayerKind regular = (i + 1) % every == 0 ? LayerKind::full : LayerKind::linear;
    model.layer_kinds.push_back(list != nullptr ? kind_of(reader, (*list)[static_cast<std::size_t>(i)]) : regular);
  }
  const bool any = std::ranges::find(model.layer_kinds, LayerKind::linear) != model.layer_kinds.end();
  const auto act = model.hidden_act.value_or(file.activation);
  if (any && kernels::activation_parameters(act) > 0)
    reader.refuse("hidden_act", "which has learned numbers: supported with linear attention are activations without them");
}

void write_linear_attention(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.delta_net) return;
  json["linear_num_key_heads"] = model.linear_key_heads;
  json["linear_num_value_heads"] = model.linear_value_heads;
  json["linear_key_head_dim"] = model.linear_key_head_dim;
  json["linear_value_head_dim"] = model.linear_value_head_dim;
  json["linear_conv_kernel_dim"] = model.linear_conv_kernel_dim;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.layers); ++i) {
    const bool linear = !model.layer_kinds.empty() && model.layer_kinds[i] == LayerKind::linear;
    json["layer_types"].push_back(linear ? "linear_attention" : "full_attention");
  }
}

}  // namespace millrace::layers
