#include "layers/models/gpt2/config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/activation.hpp"
#include "layers/formats/hugging_face/unsupported.hpp"

namespace millrace::layers {
namespace {

using runtime::JsonReader;
using runtime::OrderedJson;

/// Reads a size under GPT-2's own name, or under the name that all other families use, which transformers accepts here too.
std::int64_t read_size(JsonReader& reader, const char* key, const char* common_name, std::int64_t max, std::int64_t missing) {
  const auto common = reader.integer(common_name, 1, max), own = reader.integer(key, 1, max);
  if (common && own && *common != *own) reader.refuse(common_name, fmt::format("which contradicts {} = {}", key, *own));
  return own ? *own : common.value_or(missing);
}

}  // namespace

ModelConfig read_gpt2(JsonReader& reader, const HuggingFaceClass& file, std::vector<std::string>& warnings) {
  ModelConfig model;
  model.vocab_size = reader.size("vocab_size", 1 << 26, 50257);
  refuse_what_no_family_computes(reader);
  model.hidden_size = read_size(reader, "n_embd", "hidden_size", 1 << 20, 768);
  model.layers = read_size(reader, "n_layer", "num_hidden_layers", max_layers, 12);
  model.heads = read_size(reader, "n_head", "num_attention_heads", 1 << 16, 12);
  model.kv_heads = model.heads;
  if (model.hidden_size % model.heads != 0) reader.refuse("n_head", fmt::format("which does not divide n_embd = {}", model.hidden_size));
  model.head_dim = model.hidden_size / model.heads;
  model.intermediate_size = reader.integer("n_inner", 1, 1 << 24).value_or(4 * model.hidden_size);
  model.max_position_embeddings = read_size(reader, "n_positions", "max_position_embeddings", 1LL << 30, 1024);
  (void)reader.find("n_ctx");  // the former name of n_positions
  model.rms_norm_eps = reader.number("layer_norm_epsilon", 0.0, 1.0).value_or(1e-5);
  model.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(true);
  model.initializer_range = reader.number("initializer_range", 0.0, 1e3).value_or(0.02);
  if (reader.find("activation_function") != nullptr) {
    const kernels::Activation activation = read_activation(reader, "activation_function");
    if (activation != kernels::Activation::gelu) model.hidden_act = activation;
  }
  if (reader.boolean("add_cross_attention").value_or(false)) reader.refuse("add_cross_attention", "supported is false");
  read_causality(reader, file, model, warnings);
  model.scale_by_layer = reader.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
  // Python treats null as false; then scores are not scaled.
  const bool scales = !reader.has("scale_attn_weights") || reader.boolean("scale_attn_weights").value_or(false);
  if (!scales) model.query_pre_attn_scalar = 1;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (reader.number(key, 0, 1).value_or(0.0) != 0) warnings.push_back(fmt::format("{}: {} is not applied", reader.where(), key));
  // Keys that change only the rounding, or the heads for other tasks.
  for (const char* key : {"reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                          "summary_type", "summary_use_proj"})
    (void)reader.find(key);
  return model;
}

OrderedJson gpt2_json(const ModelConfig& model, const HuggingFaceClass& file, std::string_view dtype) {
  OrderedJson json;
  json["architectures"] = {file.architecture};
  json["model_type"] = file.model_type;
  json["vocab_size"] = model.vocab_size;
  json["n_embd"] = model.hidden_size;
  json["n_layer"] = model.layers;
  json["n_head"] = model.heads;
  json["n_inner"] = model.intermediate_size;
  json["n_positions"] = model.max_position_embeddings;
  json["activation_function"] = activation_name(model.hidden_act.value_or(kernels::Activation::gelu), "gelu_new");
  json["scale_attn_weights"] = model.query_pre_attn_scalar != 1;
  json["scale_attn_by_inverse_layer_idx"] = model.scale_by_layer;
  json["layer_norm_epsilon"] = model.rms_norm_eps;
  json["initializer_range"] = model.initializer_range;
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0.0;
  write_causality(json, file, model);
  add_common_keys(json, dtype);
  return json;
}

}  // namespace millrace::layers
