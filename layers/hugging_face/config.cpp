#include "layers/hugging_face/config.hpp"

#include <algorithm>
#include <array>

#include "layers/config_file.hpp"
#include "layers/hugging_face/gpt2_config.hpp"
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
  double epsilon = 1e-6;
  double theta = 10000.0;
  std::int64_t window = 0;             // of sliding layers; 0: the family has none
  std::int64_t full_every = 0;         // each so-manieth layer is full, the others slide; 0: all alike
  double query_pre_attn_scalar = 0.0;  // 0: the family has no such key
  double attention_cap = 0.0, final_cap = 0.0;
  double local_theta = 0.0;  // of sliding layers; 0: the full ones'
  bool two_ropes = false;    // rope_parameters has a dictionary for each kind of layer
};

constexpr std::array families = {
    Family{.model_type = "llama", .architecture = "LlamaForCausalLM", .family = "llama"},
    Family{.model_type = "mistral", .architecture = "MistralForCausalLM", .family = "mistral", .kv_heads = 8, .window = 4096},
    Family{.model_type = "gemma",
           .architecture = "GemmaForCausalLM",
           .family = "gemma",
           .gelu = true,
           .tied = true,
           .head_dim = 256,
           .heads = 16,
           .kv_heads = 16,
           .vocab_size = 256000},
    Family{.model_type = "gemma2",
           .architecture = "Gemma2ForCausalLM",
           .family = "gemma2",
           .gelu = true,
           .tied = true,
           .head_dim = 256,
           .heads = 8,
           .kv_heads = 4,
           .vocab_size = 256000,
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
           .theta = 1e6,
           .window = 4096,
           .full_every = 6,
           .query_pre_attn_scalar = 256,
           .local_theta = 10000.0,
           .two_ropes = true},
    Family{.model_type = "qwen2", .architecture = "Qwen2ForCausalLM", .family = "qwen2", .kv_heads = 32},
    Family{.model_type = "qwen3", .architecture = "Qwen3ForCausalLM", .family = "qwen3", .head_dim = 128, .kv_heads = 32},
    Family{.model_type = "olmo3",
           .architecture = "Olmo3ForCausalLM",
           .family = "olmo3",
           .epsilon = 1e-5,
           .theta = 5e5,
           .window = 4096,
           .full_every = 4,
           .two_ropes = true},
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
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window", "use_bidirectional_attention"}) {
    if (reader.boolean(key).value_or(false)) reader.refuse(key, "supported is false");
  }
  // Gemma's spelling comes first where it is present, as in transformers.
  const char* activation_key = reader.find("hidden_activation") != nullptr ? "hidden_activation" : "hidden_act";
  (void)reader.find("hidden_act");
  const std::string activation = reader.text(activation_key).value_or(family.gelu ? "gelu_pytorch_tanh" : "silu");
  // Gemma's "gelu" has always meant the tanh form.
  const bool known =
      family.gelu ? activation == "gelu_pytorch_tanh" || activation == "gelu" : activation == "silu" || activation == "swish";
  if (!known) reader.refuse(activation_key, family.gelu ? "supported is \"gelu_pytorch_tanh\"" : "supported is \"silu\"");
  if (reader.find("quantization_config") != nullptr)
    reader.refuse("quantization_config", "supported are fp32, fp16 and bf16 tensors without quantization");
  if (reader.number("partial_rotary_factor", 0, 1).value_or(1.0) != 1.0) reader.refuse("partial_rotary_factor", "supported is 1");
  if (reader.number("attention_dropout", 0, 1).value_or(0.0) != 0.0) {
    warnings.push_back(fmt::format("{}: attention_dropout is not applied", reader.where()));
  }
}

void read_scaling(JsonReader& scaling, const ModelConfig& model, RopeConfig& rope) {
  const char* kind_key = scaling.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string kind = scaling.text(kind_key).value_or("default");
  (void)scaling.find("type");
  rope.kind = RopeKind::none;
  for (const RopeKind known : {RopeKind::linear, RopeKind::llama3, RopeKind::yarn}) {
    if (kind == to_string(known)) rope.kind = known;
  }
  if (rope.kind == RopeKind::none && kind != "default")
    scaling.refuse(kind_key, "supported are \"default\", \"linear\", \"llama3\" and \"yarn\"");
  rope.theta = scaling.number("rope_theta", 1.0, 1e15).value_or(rope.theta);
  if (scaling.number("partial_rotary_factor", 0, 1).value_or(1.0) != 1.0) scaling.refuse("partial_rotary_factor", "supported is 1");
  if (rope.kind == RopeKind::none) return;

  const auto factor = scaling.number("factor", 1.0, 1e9);
  if (!factor) scaling.refuse("factor", "wanted a number of 1 or more");
  rope.factor = *factor;
  if (rope.kind == RopeKind::linear) return;
  rope.original_max_position = scaling.integer("original_max_position_embeddings", 1, 1LL << 40).value_or(model.max_position_embeddings);
  if (rope.kind == RopeKind::yarn) {
    rope.beta_fast = scaling.number("beta_fast", 1e-9, 1e9).value_or(32.0);
    rope.beta_slow = scaling.number("beta_slow", 1e-9, 1e9).value_or(1.0);
    if (rope.beta_fast < rope.beta_slow) scaling.refuse("beta_fast", fmt::format("wanted beta_slow = {} or more", rope.beta_slow));
    rope.truncate = scaling.boolean("truncate").value_or(true);
    rope.attention_factor = scaling.number("attention_factor", 1e-9, 1e9).value_or(0.0);
    return;
  }
  const auto low = scaling.number("low_freq_factor", 1e-9, 1e9);
  const auto high = scaling.number("high_freq_factor", 1e-9, 1e9);
  if (!low) scaling.refuse("low_freq_factor", "wanted a number above 0");
  if (!high || *high <= *low) scaling.refuse("high_freq_factor", "wanted a number above low_freq_factor");
  rope.low_freq_factor = *low;
  rope.high_freq_factor = *high;
}

/// transformers 5 keeps everything in rope_parameters, in families with two rotations a dictionary for each kind of layer; 4 keeps
/// rope_theta outside and the rest, which is of the full layers alone, in rope_scaling.
void read_rope(JsonReader& reader, const Family& family, ModelConfig& model, std::vector<std::string>& warnings) {
  const auto outer_theta = reader.number("rope_theta", 1.0, 1e15);
  model.rope.theta = outer_theta.value_or(family.theta);
  if (family.local_theta > 0) model.rope_local_theta = reader.number("rope_local_base_freq", 1.0, 1e15).value_or(family.local_theta);
  auto parameters = reader.object("rope_parameters");
  auto scaling = reader.object("rope_scaling");
  if (family.two_ropes && parameters && (parameters->has("full_attention") || parameters->has("sliding_attention"))) {
    if (auto full = parameters->object("full_attention")) {
      read_scaling(*full, model, model.rope);
      full->warn_of_the_rest(warnings);
    }
    RopeConfig local{.theta = family.local_theta > 0 ? family.local_theta : family.theta};
    if (auto sliding = parameters->object("sliding_attention")) {
      read_scaling(*sliding, model, local);
      if (local.kind != RopeKind::none) sliding->refuse("rope_type", "supported in sliding layers is \"default\"");
      sliding->warn_of_the_rest(warnings);
    }
    model.rope_local_theta = local.theta;
    return;  // what else stands there, transformers does not read either
  }
  auto& chosen = parameters ? parameters : scaling;
  if (chosen) {
    read_scaling(*chosen, model, model.rope);
    chosen->warn_of_the_rest(warnings);
    if (parameters && outer_theta && *outer_theta != model.rope.theta) {
      warnings.push_back(fmt::format("{}: rope_theta = {} is overruled by rope_parameters.rope_theta = {}", reader.where(), *outer_theta,
                                     model.rope.theta));
    }
  }
  if (family.two_ropes && family.local_theta == 0) model.rope_local_theta = model.rope.theta;
}

/// Which layers slide: the list, or the family's pattern.
void read_layer_kinds(JsonReader& reader, const Family& family, ModelConfig& model) {
  const char* pattern_key = reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  const std::int64_t period = reader.integer(pattern_key, 1, 1 << 16).value_or(family.full_every);
  (void)reader.find("max_window_layers");
  if (family.window > 0) {
    // Mistral's null means that no layer slides.
    model.sliding_window = reader.has("sliding_window") ? reader.integer("sliding_window", 1, 1LL << 40).value_or(0) : family.window;
  } else {
    (void)reader.find("sliding_window");  // without use_sliding_window it means nothing
  }
  std::vector<LayerKind> kinds(static_cast<std::size_t>(model.layers), model.sliding_window > 0 ? LayerKind::sliding : LayerKind::full);
  for (std::size_t i = 0; family.full_every > 0 && i < kinds.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(period) == 0) kinds[i] = LayerKind::full;
  }
  if (const Json* list = reader.find("layer_types")) {
    const bool fits = list->is_array() && list->size() == kinds.size();
    if (!fits) reader.refuse("layer_types", fmt::format("wanted a list of {} strings, one a layer", kinds.size()));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const Json& entry = (*list)[i];
      const bool sliding = entry == "sliding_attention";
      if (!sliding && entry != "full_attention") reader.refuse("layer_types", "supported are \"full_attention\" and \"sliding_attention\"");
      const LayerKind kind = sliding ? LayerKind::sliding : LayerKind::full;
      if (sliding && model.sliding_window == 0) reader.refuse("sliding_window", "wanted a number, layer_types has sliding layers");
      if (kind != kinds[i] && !family.two_ropes) reader.refuse("layer_types", fmt::format("layer {} differs from the family's pattern", i));
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
    reader.refuse("head_dim", fmt::format("which makes heads of {}; wanted an even number (rotary embedding turns pairs)", model.head_dim));
  }
  model.rms_norm_eps = reader.number("rms_norm_eps", 0.0, 1.0).value_or(family.epsilon);
  model.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1LL << 40).value_or(2048);
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

/// rope_parameters of one kind of layer; theta stands in it where asked.
OrderedJson rope_json(const RopeConfig& rope, bool with_theta) {
  OrderedJson json;
  json["rope_type"] = to_string(rope.kind);
  if (rope.kind != RopeKind::none) json["factor"] = rope.factor;
  if (rope.kind == RopeKind::llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == RopeKind::llama3 || rope.kind == RopeKind::yarn) json["original_max_position_embeddings"] = rope.original_max_position;
  if (rope.kind == RopeKind::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  }
  if (with_theta) json["rope_theta"] = rope.theta;
  return json;
}

void write_rope(OrderedJson& json, const Family& family, const ModelConfig& model) {
  json["rope_theta"] = model.rope.theta;
  json["rope_scaling"] = model.rope.kind == RopeKind::none ? OrderedJson(nullptr) : rope_json(model.rope, false);
  if (family.local_theta > 0) json["rope_local_base_freq"] = model.rope_local_theta;
  if (family.two_ropes) {
    json["rope_parameters"]["full_attention"] = rope_json(model.rope, true);
    json["rope_parameters"]["sliding_attention"] = rope_json(RopeConfig{.theta = model.rope_local_theta}, true);
  } else {
    json["rope_parameters"] = rope_json(model.rope, true);
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
  write_rope(json, family, model);
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
  read_rope(reader, family, model, warnings);
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
