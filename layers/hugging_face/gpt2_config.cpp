#include "layers/hugging_face/gpt2_config.hpp"

#include <array>

#include "layers/config_file.hpp"

namespace millrace::layers {

bool is_gpt2(JsonReader& reader) {
  if (const auto type = reader.text("model_type")) return *type == "gpt2";
  const Json* architectures = reader.find("architectures");
  return architectures != nullptr && architectures->is_array() && !architectures->empty() && architectures->front() == "GPT2LMHeadModel";
}

ModelConfig read_gpt2(JsonReader& reader, std::vector<std::string>& warnings) {
  ModelConfig model;
  model.family = "gpt2";
  model.vocab_size = reader.size("vocab_size", 1 << 26, 50257);
  model.hidden_size = reader.size("n_embd", 1 << 20, 768);
  model.layers = reader.size("n_layer", most_layers, 12);
  model.heads = reader.size("n_head", 1 << 16, 12);
  model.kv_heads = model.heads;
  if (model.hidden_size % model.heads != 0) reader.refuse("n_head", fmt::format("which does not divide n_embd = {}", model.hidden_size));
  model.head_dim = model.hidden_size / model.heads;
  model.intermediate_size = reader.integer("n_inner", 1, 1 << 24).value_or(4 * model.hidden_size);
  model.max_position_embeddings = reader.size("n_positions", 1LL << 30, 1024);
  (void)reader.find("n_ctx");  // what n_positions was called once
  model.rms_norm_eps = reader.number("layer_norm_epsilon", 0.0, 1.0).value_or(1e-5);
  model.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(true);
  model.initializer_range = reader.number("initializer_range", 0.0, 1e3).value_or(0.02);
  const std::string activation = reader.text("activation_function").value_or("gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") reader.refuse("activation_function", "supported is \"gelu_new\"");
  for (const char* key : {"add_cross_attention", "scale_attn_by_inverse_layer_idx"})
    if (reader.boolean(key).value_or(false)) reader.refuse(key, "supported is false");
  if (!reader.boolean("scale_attn_weights").value_or(true)) reader.refuse("scale_attn_weights", "supported is true");
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (reader.number(key, 0, 1).value_or(0.0) != 0) warnings.push_back(fmt::format("{}: {} is not applied", reader.where(), key));
  // They change the rounding, or a head that is not this one.
  for (const char* key : {"reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                          "summary_type", "summary_use_proj"})
    (void)reader.find(key);
  return model;
}

OrderedJson gpt2_json(const ModelConfig& model) {
  OrderedJson json;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["vocab_size"] = model.vocab_size;
  json["n_embd"] = model.hidden_size;
  json["n_layer"] = model.layers;
  json["n_head"] = model.heads;
  json["n_inner"] = model.intermediate_size;
  json["n_positions"] = model.max_position_embeddings;
  json["activation_function"] = "gelu_new";
  json["layer_norm_epsilon"] = model.rms_norm_eps;
  json["initializer_range"] = model.initializer_range;
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0.0;
  return json;
}

}  // namespace millrace::layers
