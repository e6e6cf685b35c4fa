#include "layers/hugging_face/config.hpp"

#include <algorithm>
#include <array>

#include "layers/config_file.hpp"
#include "layers/hugging_face/gpt2_config.hpp"
#include "layers/hugging_face/rope.hpp"
#include "layers/hugging_face/unsupported.hpp"
#include "layers/json_reader.hpp"

namespace millrace::layers {
namespace {

constexpr const char* who = "hugging_face.config";

/// What a missing key means, by the class of transformers that writes the file (spec: models, section 4.1).
struct Family {
  const char* model_type;
  const char* architecture;
  const char* family;  // ours
  bool gelu = false;   // tanh form; else SiLU
  bool tied = false;
  std::int64_t head_dim = 0;  // 0: hidden_size / heads
  std::int64_t heads = 32;
  std::int64_t kv_heads = 0;    // 0: as heads
  std::int64_t vocab_size = 0;  // 0: has to be there
  std::int64_t positions = 2048;
  double epsilon = 1e-6;
  std::int64_t window = 0;             // of sliding layers; 0: the family has none
  std::int64_t full_every = 0;         // every n-th layer is full, the others slide; 0: all alike
  bool reads_pattern = false;          // sliding_window_pattern says that n
  double query_pre_attn_scalar = 0.0;  // 0: the family has no such key
  double attention_cap = 0.0, final_cap = 0.0;
  RopeDefaults rope = {};
};

constexpr std::array families = {
    Family{.model_type = "llama", .architecture = "LlamaForCausalLM", .family = "llama"},
    Family{.model_type = "mistral",
           .architecture = "MistralForCausalLM",
           .family = "mistral",
           .kv_heads = 8,
           .positions = 4096 * 32,
           .window = 4096},
    Family{.model_type = "gemma",
           .architecture = "GemmaForCausalLM",
           .family = "gemma",
           .gelu = true,
           .tied = true,
           .head_dim = 256,
           .heads = 16,
           .kv_heads = 16,
           .vocab_size = 256000,
           .positions = 8192},
    Family{.model_type = "gemma2",
           .architecture = "Gemma2ForCausalLM",
           .family = "gemma2",
           .gelu = true,
           .tied = true,
           .head_dim = 256,
           .heads = 8,
           .kv_heads = 4,
           .vocab_size = 256000,
           .positions = 8192,
           .window = 4096,
           .full_every = 2,
           .query_pre_attn_scalar = 256,
           .attention_cap = 50,
           .final_cap = 30},
    Family{.model_type = "gemma3_text",
           .architecture = "Gemma3ForCausalLM",
           .family = "gemma3",
           .gelu = true,
           .tied = true,
           .head_dim = 256,
           .heads = 8,
           .kv_heads = 4,
           .vocab_size = 262208,
           .positions = 131072,
           .window = 4096,
           .full_every = 6,
           .reads_pattern = true,
           .query_pre_attn_scalar = 256,
           .rope = {.theta = 1e6, .local_theta = 10000.0, .two_ropes = true}},
    Family{.model_type = "qwen2", .architecture = "Qwen2ForCausalLM", .family = "qwen2", .kv_heads = 32, .positions = 32768},
    Family{
        .model_type = "qwen3", .architecture = "Qwen3ForCausalLM", .family = "qwen3", .head_dim = 128, .kv_heads = 32, .positions = 32768},
    Family{.model_type = "olmo3",
           .architecture = "Olmo3ForCausalLM",
           .family = "olmo3",
           .epsilon = 1e-5,
           .window = 4096,
           .full_every = 4,
           .rope = {.theta = 5e5, .two_ropes = true}},
};

const Family& family_of(JsonReader& reader) {
  const auto type = reader.text("model_type");
  const Json* architectures = reader.find("architectures");
  std::string names;
  for (const Family& family : families) {
    if (type && *type == family.model_type) return family;
    const bool first = architectures != nullptr && architectures->is_array() && !architectures->empty() &&
                       architectures->front().is_string() && architectures->front() == family.architecture;
    if (!type && first) return family;
    names += fmt::format("\"{}\", ", family.model_type);
  }
  reader.refuse("model_type", "supported are " + names + "\"gpt2\"");
}

const Family& family_named(const std::string& name) {
  for (const Family& family : families)
    if (name == family.family) return family;
  fail(ExitCode::model, who, "model.family = \"{}\" has no config.json of transformers", name);
}

void refuse_what_is_not_computed(JsonReader& reader, const Family& family, std::vector<std::string>& warnings) {
  refuse_what_no_family_computes(reader);
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window", "use_bidirectional_attention"}) {
    if (reader.boolean(key).value_or(false)) reader.refuse(key, "supported is false");
  }
  // Which of the two is read depends on family and version: each that is there has to say what is computed.
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    const auto activation = reader.text(key);
    if (!activation) continue;
    // In hidden_act Gemma's "gelu" has always meant the tanh form; in hidden_activation it is the exact one.
    const bool tanh_form = *activation == "gelu_pytorch_tanh" || (*activation == "gelu" && key == std::string_view("hidden_act"));
    const bool known = family.gelu ? tanh_form : *activation == "silu" || *activation == "swish";
    if (!known) reader.refuse(key, family.gelu ? "supported is \"gelu_pytorch_tanh\"" : "supported is \"silu\"");
  }
  if (reader.number("partial_rotary_factor", 0, 1).value_or(1.0) != 1.0) reader.refuse("partial_rotary_factor", "supported is 1");
  if (reader.number("attention_dropout", 0, 1).value_or(0.0) != 0.0) {
    warnings.push_back(fmt::format("{}: attention_dropout is not applied", reader.where()));
  }
}

/// Every n-th layer is full. A pattern that transformers does not read in this family, or not without the other spelling, must not differ
/// from what it takes; layer_types comes before any.
std::int64_t read_period(JsonReader& reader, const Family& family, bool has_list) {
  const auto pattern = reader.integer("sliding_window_pattern", 1, 1 << 16), old = reader.integer("_sliding_window_pattern", 1, 1 << 16);
  if (family.full_every == 0 || has_list) return family.full_every;
  const std::int64_t period = family.reads_pattern ? pattern.value_or(family.full_every) : family.full_every;
  if (pattern && *pattern != period)
    reader.refuse("sliding_window_pattern", fmt::format("supported by this family is {} (layer_types says any other)", period));
  if (old && *old != period)
    reader.refuse("_sliding_window_pattern", fmt::format("which transformers does not read: expected {}, or layer_types", period));
  return period;
}

/// Which layers slide: the list, or the family's pattern.
void read_layer_kinds(JsonReader& reader, const Family& family, ModelConfig& model) {
  const Json* list = reader.find("layer_types");
  const std::int64_t period = read_period(reader, family, list != nullptr);
  static_cast<void>(reader.find("max_window_layers"));  // without use_sliding_window it means nothing
  if (family.window > 0) {
    // Mistral's null means that no layer slides.
    model.sliding_window = reader.has("sliding_window") ? reader.integer("sliding_window", 1, 1LL << 40).value_or(0) : family.window;
  } else {
    (void)reader.find("sliding_window");  // without use_sliding_window it means nothing
  }
  if (family.full_every > 0 && model.sliding_window == 0 && list == nullptr)
    reader.refuse("sliding_window", "expected a number: some layers slide");
  std::vector<LayerKind> kinds(static_cast<std::size_t>(model.layers), model.sliding_window > 0 ? LayerKind::sliding : LayerKind::full);
  for (std::size_t i = 0; family.full_every > 0 && i < kinds.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(period) == 0) kinds[i] = LayerKind::full;
  }
  if (list != nullptr) {
    const bool fits = list->is_array() && list->size() == kinds.size();
    if (!fits) reader.refuse("layer_types", fmt::format("expected a list of {} strings, one a layer", kinds.size()));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const Json& entry = (*list)[i];
      const bool sliding = entry == "sliding_attention";
      if (!sliding && entry != "full_attention") reader.refuse("layer_types", "supported are \"full_attention\" and \"sliding_attention\"");
      const LayerKind kind = sliding ? LayerKind::sliding : LayerKind::full;
      if (sliding && model.sliding_window == 0) reader.refuse("sliding_window", "expected a number, layer_types has sliding layers");
      if (kind != kinds[i] && !family.rope.two_ropes)
        reader.refuse("layer_types", fmt::format("layer {} differs from the family's pattern", i));
      kinds[i] = kind;
    }
  }
  if (std::ranges::find(kinds, LayerKind::sliding) != kinds.end()) model.layer_kinds = std::move(kinds);
}

void read_sizes(JsonReader& reader, const Family& family, ModelConfig& model) {
  model.family = family.family;
  model.vocab_size = reader.size("vocab_size", 1 << 26, family.vocab_size);
  model.hidden_size = reader.size("hidden_size", 1 << 20);
  model.intermediate_size = reader.size("intermediate_size", 1 << 24);
  model.layers = reader.size("num_hidden_layers", most_layers);
  model.heads = reader.integer("num_attention_heads", 1, 1 << 16).value_or(family.heads);
  const std::int64_t kv_default = family.kv_heads > 0 && !reader.has("num_key_value_heads") ? family.kv_heads : model.heads;
  model.kv_heads = reader.integer("num_key_value_heads", 1, 1 << 16).value_or(kv_default);
  if (model.heads % model.kv_heads != 0) {
    reader.refuse("num_key_value_heads", fmt::format("which does not divide num_attention_heads = {}", model.heads));
  }
  const std::int64_t head_default = reader.has("head_dim") ? 0 : family.head_dim;
  if (const auto head_dim = reader.integer("head_dim", 1, 1 << 16); head_dim || head_default > 0) {
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
                  fmt::format("which makes heads of {}; expected an even number (rotary embedding turns pairs)", model.head_dim));
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
    model.attn_logit_softcapping = cap("attn_logit_softcapping", family.attention_cap);
    model.final_logit_softcapping = cap("final_logit_softcapping", family.final_cap);
  }
}

void write_layer_kinds(OrderedJson& json, const Family& family, const ModelConfig& model) {
  if (family.window == 0) return;
  json["sliding_window"] = model.sliding_window > 0 ? Json(model.sliding_window) : Json(nullptr);
  if (family.full_every == 0) return;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const bool sliding = !model.layer_kinds.empty() && model.layer_kinds[static_cast<std::size_t>(i)] == LayerKind::sliding;
    json["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
  }
}

OrderedJson standard_json(const ModelConfig& model) {
  const Family& family = family_named(model.family);
  OrderedJson json;
  json["architectures"] = {family.architecture};
  json["model_type"] = family.model_type;
  json["vocab_size"] = model.vocab_size;
  json["hidden_size"] = model.hidden_size;
  json["intermediate_size"] = model.intermediate_size;
  json["num_hidden_layers"] = model.layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["hidden_act"] = family.gelu ? "gelu_pytorch_tanh" : "silu";
  if (family.gelu) json["hidden_activation"] = "gelu_pytorch_tanh";
  json["rms_norm_eps"] = model.rms_norm_eps;
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["attention_dropout"] = 0.0;
  json["max_position_embeddings"] = model.max_position_embeddings;
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  json["initializer_range"] = model.initializer_range;
  if (family.query_pre_attn_scalar > 0) {
    const auto cap = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
    // transformers 5 takes no 256.0 where its class says int.
    const double scalar = model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : static_cast<double>(model.head_dim);
    const auto whole = static_cast<std::int64_t>(scalar);
    json["query_pre_attn_scalar"] = static_cast<double>(whole) == scalar ? Json(whole) : Json(scalar);
    json["attn_logit_softcapping"] = cap(model.attn_logit_softcapping);
    json["final_logit_softcapping"] = cap(model.final_logit_softcapping);
  }
  write_layer_kinds(json, family, model);
  write_rope(json, family.rope, model);
  return json;
}

}  // namespace

ModelConfig read_hugging_face(JsonReader& reader, std::vector<std::string>& warnings) {
  if (is_gpt2(reader)) return read_gpt2(reader, warnings);
  const Family& family = family_of(reader);
  refuse_what_is_not_computed(reader, family, warnings);
  ModelConfig model;
  read_sizes(reader, family, model);
  read_layer_kinds(reader, family, model);
  read_rope(reader, family.rope, model, warnings);
  return model;
}

OrderedJson hugging_face_json(const ModelConfig& model, std::string_view dtype) {
  OrderedJson json = model.family == "gpt2" ? gpt2_json(model) : standard_json(model);
  // Ids that the library would take from its class are tokens of our vocabularies.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["pad_token_id"] = nullptr;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
  return json;
}

}  // namespace millrace::layers
