#include "layers/formats/maxtext/experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/base/route_options.hpp"

namespace millrace::layers {
namespace {

using kernels::RouterBias;
using kernels::RouterScore;
using runtime::JsonReader;

/// routed_score_func.
constexpr std::array score_functions = {std::pair{RouterScore::logit, ""}, std::pair{RouterScore::softmax, "softmax"},
                                        std::pair{RouterScore::sigmoid, "sigmoid"}, std::pair{RouterScore::sqrt_softplus, "sqrtsoftplus"}};

/// Whether weights are scores times a factor, so that the factor has an effect, and norm_topk_prob has none.
bool scales(const MaxTextFile& file) { return file.experts->weights == MaxTextWeights::scaled; }

/// A part of experts that is not computed, and the value with which it is off.
void refuse_parts(JsonReader& reader, const ModelConfig& model) {
  const auto off = [&](const char* key) {
    if (reader.boolean(key).value_or(false)) reader.refuse(key, "supported is false");
  };
  off("use_random_routing");
  off("prefuse_moe_weights");
  const auto width = reader.integer("moe_expert_input_dim", INT64_MIN, 1 << 20).value_or(-1);
  if (width > 0 && width != model.hidden_size)
    reader.refuse("moe_expert_input_dim", fmt::format("supported are -1 and emb_dim = {}", model.hidden_size));
}

void read_score(JsonReader& reader, ModelConfig& model) {
  const std::string name = reader.text("routed_score_func").value_or("");
  const auto* const known = std::ranges::find(score_functions, name, &std::pair<RouterScore, const char*>::second);
  if (known == score_functions.end()) reader.refuse("routed_score_func", R"(supported are "", "softmax", "sigmoid" and "sqrtsoftplus")");
  model.routed_score = known->first;
}

}  // namespace

void read_maxtext_experts(JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses) {
  if (!file.experts) return;
  refuse_parts(reader, model);
  model.experts = reader.integer("num_experts", INT64_MIN, 1LL << 40).value_or(1);
  if (model.experts < 2 || model.experts > kernels::max_experts)
    reader.refuse("num_experts", fmt::format("supported are 2 to {}", kernels::max_experts));
  model.experts_per_token = reader.size("num_experts_per_tok", 1 << 16, 1);
  if (model.experts_per_token > model.experts)
    reader.refuse("num_experts_per_tok", fmt::format("expected at most num_experts = {}", model.experts));
  if (file.experts->weights == MaxTextWeights::sigmoid && model.experts_per_token != 1)
    reader.refuse("num_experts_per_tok", "supported is 1");
  const std::int64_t width = reader.integer("moe_mlp_dim", -1, 1 << 24).value_or(-1);
  if (width == 0) reader.refuse("moe_mlp_dim", "expected 1 or more, or -1");
  if (!file.experts->own_width && width > 0 && width != model.intermediate_size)
    reader.refuse("moe_mlp_dim", fmt::format("supported by decoder_block \"{}\" is mlp_dim = {}", file.block, model.intermediate_size));
  model.moe_intermediate_size = file.experts->own_width ? std::max<std::int64_t>(width, 0) : 0;
  read_score(reader, model);
  model.routed_bias = reader.boolean("routed_bias").value_or(false) ? RouterBias::score : RouterBias::none;
  model.norm_topk_prob = reader.boolean("norm_topk_prob").value_or(false);
  if (scales(file)) model.routed_scaling_factor = reader.number("routed_scaling_factor", 0, 1e9).value_or(1);
  model.float32_gate_logits = reader.boolean("float32_gate_logits").value_or(false);
  losses.balance_loss = reader.number("load_balance_loss_weight", 0, 1e3).value_or(0);
}

void write_maxtext_experts(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model,
                           const runtime::LossWeights& losses) {
  if (!file.experts) return;
  json["num_experts"] = model.experts;
  json["num_experts_per_tok"] = model.experts_per_token;
  json["moe_mlp_dim"] = expert_width(model);
  json["routed_score_func"] = std::ranges::find(score_functions, model.routed_score, &std::pair<RouterScore, const char*>::first)->second;
  json["routed_bias"] = model.routed_bias != RouterBias::none;
  json["norm_topk_prob"] = model.norm_topk_prob;
  if (scales(file)) json["routed_scaling_factor"] = model.routed_scaling_factor;
  json["float32_gate_logits"] = model.float32_gate_logits;
  json["load_balance_loss_weight"] = losses.balance_loss;
}

}  // namespace millrace::layers
