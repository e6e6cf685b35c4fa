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

/// Whether weights are scores times a factor, so that the factor has an effect.
bool scales(const MaxTextFile& file) { return file.experts->weights == MaxTextWeights::scaled; }

/// Whether weights are a softmax, of which norm_topk_prob makes the sum 1.
bool normalises(const MaxTextFile& file) {
  return file.experts->weights == MaxTextWeights::softmax || file.experts->weights == MaxTextWeights::probability;
}

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

/// Reads the bias of the router and its groups, which have an effect under some names of models only.
void read_choice(JsonReader& reader, const MaxTextExperts& experts, ModelConfig& model) {
  const std::string name = reader.text("model_name").value_or("default");
  const bool chooses = std::ranges::any_of(experts.choosing_prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  if (reader.boolean("routed_bias").value_or(false)) model.routed_bias = chooses ? RouterBias::choice : RouterBias::score;
  const std::int64_t groups = reader.integer("n_routing_groups", -1, 1 << 16).value_or(-1);
  const std::int64_t kept = reader.integer("topk_routing_group", -1, 1 << 16).value_or(-1);
  if (!chooses || groups == -1) return;
  if (groups < 1 || model.experts % groups != 0)
    reader.refuse("n_routing_groups", fmt::format("expected -1 or a divisor of num_experts = {}", model.experts));
  if (kept < 1 || kept > groups) reader.refuse("topk_routing_group", fmt::format("expected 1 to n_routing_groups = {}", groups));
  const std::int64_t in_group = model.experts / groups;
  if (in_group < 2)
    reader.refuse("n_routing_groups", fmt::format("which leaves groups of one of the {} experts, expected 2 or more", model.experts));
  if (model.experts_per_token > kept * in_group)
    reader.refuse("num_experts_per_tok", fmt::format("expected at most the {} experts of {} groups", kept * in_group, kept));
  model.routing_groups = groups;
  model.kept_routing_groups = kept;
}

}  // namespace

std::string choosing_model_name(const ModelConfig& model, const MaxTextExperts& experts) {
  return std::string(model.routed_bias == RouterBias::choice || model.routing_groups > 1 ? experts.choosing_name : experts.other_name);
}

void read_maxtext_experts(JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses) {
  if (!file.experts) return;
  refuse_parts(reader, model);
  model.experts = reader.integer("num_experts", INT64_MIN, 1LL << 40).value_or(1);
  const auto shared = reader.integer("shared_experts", INT64_MIN, 1LL << 40);
  if (file.experts->optional && model.experts == 1) {
    model.experts = 0;
    static_cast<void>(reader.find("load_balance_loss_weight"));  // no router has the loss
    return;
  }
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
  read_choice(reader, *file.experts, model);
  if (file.experts->dense_first) {
    const std::int64_t first = reader.integer("first_num_dense_layers", 0, 1LL << 40).value_or(0);
    if (first > model.layers)
      reader.refuse("first_num_dense_layers", fmt::format("expected at most num_decoder_layers = {}", model.layers));
    model.first_dense_layers = first;
  }
  if (file.experts->one_shared && shared.value_or(1) != 1) reader.refuse("shared_experts", "supported is 1");
  if (file.experts->shared != nullptr && !file.experts->one_shared)
    model.shared_experts = reader.integer("shared_experts", 0, 1 << 16).value_or(0);
  if (file.experts->branch && model.shared_experts == 0)
    reader.refuse("shared_experts", fmt::format("expected 1 or more with num_experts = {}", model.experts));
  if (normalises(file)) model.norm_topk_prob = reader.boolean("norm_topk_prob").value_or(false);
  if (scales(file)) model.routed_scaling_factor = reader.number("routed_scaling_factor", 0, 1e9).value_or(1);
  // Without the dropless path a capacity of 0 or less means none; the dropless path has none.
  const double capacity = reader.number("capacity_factor", -1e9, 1e9).value_or(-1);
  if (!reader.boolean("sparse_matmul").value_or(true)) model.capacity_factor = std::max(capacity, 0.0);
  model.float32_gate_logits = reader.boolean("float32_gate_logits").value_or(false);
  // Only DeepSeek's blocks move the bias.
  if (scales(file) && model.routed_bias != RouterBias::none)
    losses.routed_bias_update_rate = reader.number("routed_bias_update_rate", 0, 1e3).value_or(0);
  losses.balance_loss = reader.number("load_balance_loss_weight", 0, 1e3).value_or(0);
}

void write_maxtext_experts(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model,
                           const runtime::LossWeights& losses) {
  if (!file.experts) return;
  json["num_experts"] = std::max<std::int64_t>(model.experts, 1);
  if (model.experts == 0) return;
  json["num_experts_per_tok"] = model.experts_per_token;
  json["moe_mlp_dim"] = file.experts->own_width && model.moe_intermediate_size == 0 ? -1 : expert_width(model);
  json["routed_score_func"] = std::ranges::find(score_functions, model.routed_score, &std::pair<RouterScore, const char*>::first)->second;
  json["routed_bias"] = model.routed_bias != RouterBias::none;
  if (file.experts->dense_first) json["first_num_dense_layers"] = model.first_dense_layers;
  if (file.experts->shared != nullptr) json["shared_experts"] = file.experts->one_shared ? 1 : model.shared_experts;
  if (!file.experts->choosing_prefixes.empty()) {
    json["n_routing_groups"] = model.routing_groups > 1 ? model.routing_groups : -1;
    json["topk_routing_group"] = model.routing_groups > 1 ? model.kept_routing_groups : -1;
  }
  if (normalises(file)) json["norm_topk_prob"] = model.norm_topk_prob;
  if (scales(file)) json["routed_scaling_factor"] = model.routed_scaling_factor;
  json["sparse_matmul"] = model.capacity_factor <= 0;
  json["capacity_factor"] = model.capacity_factor > 0 ? model.capacity_factor : -1.0;
  json["float32_gate_logits"] = model.float32_gate_logits;
  if (scales(file)) json["routed_bias_update_rate"] = losses.routed_bias_update_rate;
  json["load_balance_loss_weight"] = losses.balance_loss;
}

}  // namespace millrace::layers
