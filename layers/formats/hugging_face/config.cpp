#include "layers/formats/hugging_face/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "layers/formats/hugging_face/activation.hpp"
#include "layers/formats/hugging_face/unsupported.hpp"

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;
using runtime::OrderedJson;

/// Warns of keys that this class does not read, if their value would change the result in a class that reads them.
void warn_of_unread(JsonReader& reader, const HuggingFaceClass& file, std::vector<std::string>& warnings) {
  const auto warn = [&](const char* key) {
    warnings.push_back(
        fmt::format("{}: {} is not read by transformers in {}, and has no effect here", reader.where(), key, file.architecture));
  };
  if (!file.attention_bias && reader.boolean("attention_bias").value_or(false)) warn("attention_bias");
  if (!file.mlp_bias && reader.boolean("mlp_bias").value_or(false)) warn("mlp_bias");
  if (!file.has_window_switch && reader.boolean("use_sliding_window").value_or(false)) warn("use_sliding_window");
  const bool has_caps = file.query_pre_attn_scalar > 0;
  if (has_caps && !file.reads_attention_cap && reader.number("attn_logit_softcapping", 0, 1e9).value_or(0) != 0)
    warn("attn_logit_softcapping");
  if (reader.number("attention_dropout", 0, 1).value_or(0.0) != 0.0)
    warnings.push_back(fmt::format("{}: attention_dropout is not applied", reader.where()));
}

/// The class's own key decides. The other key belongs to other classes or versions; if the file has it too, it must name the same
/// function.
std::optional<kernels::Activation> read_mlp_activation(JsonReader& reader, const HuggingFaceClass& file,
                                                       std::vector<std::string>& warnings) {
  if (!file.reads_activation) {
    if (const auto name = reader.text(file.activation_key); name && *name != activation_name(file.activation))
      warnings.push_back(fmt::format("{}: {} = \"{}\" is not read by transformers in {}, and has no effect here", reader.where(),
                                     file.activation_key, *name, file.architecture));
    return std::nullopt;
  }
  const auto read = [&](const char* key) -> std::optional<kernels::Activation> {
    const auto name = reader.text(key);
    if (!name) return std::nullopt;
    if (*name == "gelu" && file.gelu_is_tanh && key == std::string_view("hidden_act")) return kernels::Activation::gelu;
    return read_activation(reader, key);
  };
  const char* other_key = file.activation_key == std::string_view("hidden_act") ? "hidden_activation" : "hidden_act";
  const auto own = read(file.activation_key), other = read(other_key);
  const kernels::Activation result = own.value_or(file.activation);
  if (other && *other != result)
    reader.refuse(other_key, fmt::format("which contradicts {} = \"{}\", the key that transformers reads in {}", file.activation_key,
                                         activation_name(result), file.architecture));
  return result == file.activation ? std::nullopt : std::optional(result);
}

/// Returns n if every n-th layer uses full attention. layer_types takes precedence over patterns. A pattern that transformers does
/// not read in this family, or does not read in this spelling, must equal the value that transformers uses.
std::int64_t read_period(JsonReader& reader, const HuggingFaceClass& family, bool has_list) {
  const auto pattern = reader.integer("sliding_window_pattern", 1, 1 << 16), old = reader.integer("_sliding_window_pattern", 1, 1 << 16);
  if (family.full_every == 0 || has_list) return family.full_every;
  const std::int64_t period = family.reads_pattern ? pattern.value_or(family.full_every) : family.full_every;
  if (pattern && *pattern != period)
    reader.refuse("sliding_window_pattern", fmt::format("supported by this family is {} (other patterns need layer_types)", period));
  if (old && *old != period)
    reader.refuse("_sliding_window_pattern", fmt::format("which transformers does not read: expected {}, or layer_types", period));
  return period;
}

/// The size of the sliding window; 0 if no layer has one.
std::int64_t read_window(JsonReader& reader, const HuggingFaceClass& file) {
  const bool slides = !file.has_window_switch || reader.boolean("use_sliding_window").value_or(false);
  if ((file.window == 0 && !file.reads_window) || !slides) {
    static_cast<void>(reader.find("sliding_window"));  // marks the key as read: transformers ignores it in this case
    return 0;
  }
  // null means that no layer has a sliding window.
  return reader.has("sliding_window") ? reader.integer("sliding_window", 1, 1LL << 40).value_or(0) : file.window;
}

/// Which layers have a sliding window without layer_types: all, all but every n-th, or those from max_window_layers on.
std::vector<LayerKind> default_kinds(JsonReader& reader, const HuggingFaceClass& file, const ModelConfig& model, std::int64_t period) {
  const std::int64_t first = file.has_first_window ? reader.integer("max_window_layers", 0, 1LL << 40).value_or(28) : 0;
  if (!file.has_first_window) static_cast<void>(reader.find("max_window_layers"));
  std::vector<LayerKind> kinds(static_cast<std::size_t>(model.layers), LayerKind::full);
  for (std::int64_t i = first; model.sliding_window > 0 && i < model.layers; ++i)
    if (file.full_every == 0 || (i + 1) % period != 0) kinds[static_cast<std::size_t>(i)] = LayerKind::sliding;
  if (file.last_is_full && !kinds.empty()) kinds.back() = LayerKind::full;
  return kinds;
}

/// Reads which layers have a sliding window, from layer_types or the class's pattern.
void read_layer_kinds(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  const Json* list = reader.find("layer_types");
  const std::int64_t period = read_period(reader, file, list != nullptr);
  model.sliding_window = read_window(reader, file);
  if (file.full_every > 0 && model.sliding_window == 0 && list == nullptr)
    reader.refuse("sliding_window", "expected a number: some layers have a sliding window");
  std::vector<LayerKind> kinds = default_kinds(reader, file, model, period);
  if (list != nullptr) {
    const bool fits = list->is_array() && list->size() == kinds.size();
    if (!fits) reader.refuse("layer_types", fmt::format("expected a list of {} strings, one per layer", kinds.size()));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const Json& entry = (*list)[i];
      const bool sliding = entry == "sliding_attention";
      if (!sliding && entry != "full_attention") reader.refuse("layer_types", "supported are \"full_attention\" and \"sliding_attention\"");
      const LayerKind kind = sliding ? LayerKind::sliding : LayerKind::full;
      if (sliding && model.sliding_window == 0) reader.refuse("sliding_window", "expected a number, since layer_types has sliding layers");
      if (kind != kinds[i] && !file.reads_layer_types)
        reader.refuse("layer_types", fmt::format("layer {} differs from the family's pattern", i));
      kinds[i] = kind;
    }
    if (file.last_is_full && kinds.back() != LayerKind::full)
      reader.refuse("layer_types",
                    "expected \"full_attention\" as the last entry: transformers gives the last layer full attention anyway");
  }
  if (std::ranges::find(kinds, LayerKind::sliding) != kinds.end()) {
    model.layer_kinds = std::move(kinds);
  } else {
    model.sliding_window = 0;
  }
}

void read_sizes(JsonReader& reader, const HuggingFaceClass& family, ModelConfig& model) {
  model.vocab_size = reader.size("vocab_size", 1 << 26, family.vocab_size);
  model.hidden_size = reader.size("hidden_size", 1 << 20);
  if (family.has_mlp_size) model.intermediate_size = reader.size("intermediate_size", 1 << 24);
  model.layers = reader.size("num_hidden_layers", max_layers);
  model.heads = reader.integer("num_attention_heads", 1, 1 << 16).value_or(family.heads);
  const std::int64_t kv_default = family.kv_heads > 0 && !reader.has("num_key_value_heads") ? family.kv_heads : model.heads;
  model.kv_heads = reader.integer("num_key_value_heads", 1, 1 << 16).value_or(kv_default);
  if (model.heads % model.kv_heads != 0) {
    reader.refuse("num_key_value_heads", fmt::format("which does not divide num_attention_heads = {}", model.heads));
  }
  const std::int64_t head_default = reader.has("head_dim") ? 0 : family.head_dim;
  if (family.latent) {
    model.head_dim = family.latent->rope_head_dim;  // read_latent() sets it
  } else if (const auto head_dim = reader.integer("head_dim", 1, 1 << 16); head_dim || head_default > 0) {
    model.head_dim = head_dim.value_or(head_default);
  } else {
    if (model.hidden_size % model.heads != 0) {
      reader.refuse("num_attention_heads",
                    fmt::format("which does not divide hidden_size = {} (and head_dim is not given)", model.hidden_size));
    }
    model.head_dim = model.hidden_size / model.heads;
  }
  if (model.head_dim % 2 != 0) {
    reader.refuse("head_dim",
                  fmt::format("which makes heads of {}; expected an even number (rotary embedding rotates pairs)", model.head_dim));
  }
  model.rms_norm_eps = reader.number("rms_norm_eps", 0.0, 1.0).value_or(family.epsilon);
  model.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1LL << 40).value_or(family.positions);
  model.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(family.tied);
  model.initializer_range = reader.number("initializer_range", 0.0, 1e3).value_or(0.02);
  if (family.query_pre_attn_scalar > 0) {
    model.query_pre_attn_scalar = reader.number("query_pre_attn_scalar", 1e-9, 1e9).value_or(family.query_pre_attn_scalar);
    const auto cap = [&](const char* key, double otherwise) {
      return reader.has(key) ? reader.number(key, 1e-9, 1e9).value_or(0.0) : otherwise;
    };
    if (family.reads_attention_cap) model.attn_logit_softcapping = cap("attn_logit_softcapping", family.attention_cap);
    model.final_logit_softcapping = cap("final_logit_softcapping", family.final_cap);
  } else if (family.reads_final_cap) {
    model.final_logit_softcapping = reader.number("final_logit_softcapping", 1e-9, 1e9).value_or(0.0);
  }
}

void write_layer_kinds(OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (file.window == 0 && !file.reads_window) return;
  // transformers makes the masks of both kinds even where every entry of layer_types is full, and needs a window for one of them.
  const std::int64_t unused = file.full_every > 0 && file.reads_layer_types ? file.window : 0;
  const std::int64_t window = model.sliding_window > 0 ? model.sliding_window : unused;
  json["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  const bool any = std::ranges::find(model.layer_kinds, LayerKind::sliding) != model.layer_kinds.end();
  if (file.has_window_switch) {
    json["use_sliding_window"] = any;
    if (file.has_first_window) json["max_window_layers"] = model.layers;
  }
  if (file.full_every == 0 && !any) return;
  if (!file.reads_layer_types) return;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const bool sliding = any && model.layer_kinds[static_cast<std::size_t>(i)] == LayerKind::sliding;
    json["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
  }
}

}  // namespace

bool is_of_class(JsonReader& reader, const HuggingFaceClass& file) {
  if (const auto type = reader.text("model_type"))
    return *type == file.model_type || std::ranges::find(file.also_named, *type) != file.also_named.end();
  const Json* architectures = reader.find("architectures");
  return architectures != nullptr && architectures->is_array() && !architectures->empty() && architectures->front() == file.architecture;
}

ModelConfig read_hugging_face(JsonReader& reader, const HuggingFaceClass& file, std::vector<std::string>& warnings) {
  refuse_what_no_family_computes(reader, file.full_layers.has_value());
  warn_of_unread(reader, file, warnings);
  ModelConfig model;
  model.hidden_act = read_mlp_activation(reader, file, warnings);
  for (const char* key : file.unread) static_cast<void>(reader.find(key));
  model.attention_bias = file.attention_bias && reader.boolean("attention_bias").value_or(file.has_attention_bias);
  model.mlp_bias = file.mlp_bias && reader.boolean("mlp_bias").value_or(false);
  read_sizes(reader, file, model);
  read_latent(reader, file, model, warnings);
  if (file.indexer) {
    read_indexer(reader, file, model);
  } else if (file.delta_net) {
    read_linear_attention(reader, file, model);
  } else if (!file.no_rope) {
    read_layer_kinds(reader, file, model);
  }
  read_no_rope(reader, file, model);
  read_full_layers(reader, file, model);
  read_per_layer_inputs(reader, file, model);
  read_causality(reader, file, model, warnings);
  read_rope(reader, file.rope, model, warnings);
  read_experts(reader, file, model, warnings);
  read_routed_experts(reader, file, model, warnings);
  read_expert_branch(reader, file, model);
  // transformers computes no modules that predict further tokens; model.mtp_layers of a run adds them.
  static_cast<void>(reader.find("num_nextn_predict_layers"));
  if (!file.has_mlp_size) model.intermediate_size = expert_width(model);  // of no layer
  return model;
}

OrderedJson hugging_face_json(const ModelConfig& model, const HuggingFaceClass& file, std::string_view dtype) {
  OrderedJson json;
  json["architectures"] = {file.architecture};
  json["model_type"] = file.model_type;
  json["vocab_size"] = model.vocab_size;
  json["hidden_size"] = model.hidden_size;
  if (file.has_mlp_size) json["intermediate_size"] = model.intermediate_size;
  json["num_hidden_layers"] = model.layers;
  if (model.mtp_layers > 0) json["num_nextn_predict_layers"] = model.mtp_layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  const auto activation = activation_name(model.hidden_act.value_or(file.activation));
  // For Gemma, hidden_act = "gelu" means the tanh form, so the exact form is written under its other name.
  json["hidden_act"] = file.gelu_is_tanh && activation == "gelu" ? "gelu_python" : activation;
  if (file.gelu_is_tanh) json["hidden_activation"] = activation;
  json["rms_norm_eps"] = model.rms_norm_eps;
  json["attention_bias"] = model.attention_bias;
  json["mlp_bias"] = model.mlp_bias;
  json["attention_dropout"] = 0.0;
  json["max_position_embeddings"] = model.max_position_embeddings;
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  json["initializer_range"] = model.initializer_range;
  if (file.query_pre_attn_scalar > 0) {
    const auto cap = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
    // transformers 5 rejects 256.0 for a key of type int.
    const double scalar = model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : static_cast<double>(model.head_dim);
    const auto whole = static_cast<std::int64_t>(scalar);
    json["query_pre_attn_scalar"] = static_cast<double>(whole) == scalar ? Json(whole) : Json(scalar);
    json["attn_logit_softcapping"] = cap(model.attn_logit_softcapping);
    json["final_logit_softcapping"] = cap(model.final_logit_softcapping);
  } else if (file.reads_final_cap) {
    json["final_logit_softcapping"] = model.final_logit_softcapping > 0 ? Json(model.final_logit_softcapping) : Json(nullptr);
  }
  write_layer_kinds(json, file, model);
  write_linear_attention(json, file, model);
  write_no_rope(json, file, model);
  write_experts(json, file, model);
  write_routed_experts(json, file, model);
  write_latent(json, file, model);
  write_indexer(json, file, model);
  write_full_layers(json, file, model);
  write_per_layer_inputs(json, file, model);
  write_expert_branch(json, file, model);
  write_causality(json, file, model);
  write_rope(json, file.rope, model);
  add_common_keys(json, dtype);
  return json;
}

void add_common_keys(OrderedJson& json, std::string_view dtype) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[key] = nullptr;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
}

}  // namespace millrace::layers
