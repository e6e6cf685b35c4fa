#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "kernels/base/route_options.hpp"
#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

using runtime::JsonReader;

/// The number of experts, whose name differs between versions and classes.
std::int64_t read_routed_count(JsonReader& reader, std::int64_t missing) {
  std::optional<std::int64_t> count;
  for (const char* key : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    const auto found = reader.integer(key, 1, kernels::max_experts);
    if (found && count && *found != *count) reader.refuse(key, fmt::format("which contradicts n_routed_experts = {}", *count));
    if (!count) count = found;
  }
  return count.value_or(missing);
}

/// A name that transformers does not read, but published code does: it must name what this class computes.
void expect_name(JsonReader& reader, const char* key, std::string_view expected, const HuggingFaceClass& file) {
  const auto name = reader.text(key);
  if (name && *name != expected) reader.refuse(key, fmt::format("supported by {} is \"{}\"", file.architecture, expected));
}

/// Reads which experts a token may have: groups of them, from the best of which it chooses.
void read_groups(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  const HuggingFaceRoutedExperts& missing = *file.routed;
  const auto groups = reader.integer("n_group", 1, 1 << 16), kept = reader.integer("topk_group", 1, 1 << 16);
  bool grouped = true;
  if (missing.reads_method) {
    const std::string method = reader.text("topk_method").value_or("greedy");
    grouped = method == "group_limited_greedy";
    if (!grouped && method != "greedy") reader.refuse("topk_method", "supported are \"greedy\" and \"group_limited_greedy\"");
  } else {
    expect_name(reader, "topk_method", "noaux_tc", file);
  }
  if (!grouped) return;
  const auto one = [&](const char* key, std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given && (reader.has(key) || otherwise == 0)) reader.refuse(key, "expected a number of 1 or more");
    return given.value_or(otherwise);
  };
  model.routing_groups = one("n_group", groups, missing.groups);
  model.kept_routing_groups = one("topk_group", kept, missing.groups_per_token);
  if (model.experts % model.routing_groups != 0)
    reader.refuse("n_group", fmt::format("expected a divisor of the {} experts", model.experts));
  if (model.kept_routing_groups > model.routing_groups) reader.refuse("topk_group", fmt::format("of {} groups", model.routing_groups));
  const std::int64_t in_group = model.experts / model.routing_groups;
  if (in_group < missing.group_best)
    reader.refuse("n_group", fmt::format("which leaves groups of {} of the {} experts, expected {} or more", in_group, model.experts,
                                         missing.group_best));
}

/// The first layers have an MLP in place of experts.
void read_dense_layers(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  const std::int64_t first = reader.integer("first_k_dense_replace", 0, 1LL << 40).value_or(file.routed->dense_layers);
  model.first_dense_layers = std::min(first, model.layers);
  if (reader.integer("moe_layer_freq", 1, 1LL << 40).value_or(1) != 1)
    reader.refuse("moe_layer_freq", fmt::format("which transformers does not read in {}, supported is 1", file.architecture));
  const runtime::Json* kinds = reader.find("mlp_layer_types");
  if (kinds == nullptr) return;
  const auto fits = [&](std::int64_t layer) {
    return (*kinds)[static_cast<std::size_t>(layer)] == (layer < model.first_dense_layers ? "dense" : "sparse");
  };
  bool all = kinds->is_array() && static_cast<std::int64_t>(kinds->size()) == model.layers;
  for (std::int64_t layer = 0; all && layer < model.layers; ++layer) all = fits(layer);
  if (!all)
    reader.refuse("mlp_layer_types", fmt::format("expected \"dense\" for the first {} of {} layers, as first_k_dense_replace says, and "
                                                 "\"sparse\" for the others",
                                                 model.first_dense_layers, model.layers));
}

}  // namespace

void read_routed_experts(JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings) {
  if (!file.routed) return;
  const HuggingFaceRoutedExperts& missing = *file.routed;
  model.experts = read_routed_count(reader, missing.count);
  model.experts_per_token = reader.size("num_experts_per_tok", 1 << 16, missing.per_token);
  model.moe_intermediate_size = reader.size("moe_intermediate_size", 1 << 24, missing.size);
  model.shared_experts = reader.integer("n_shared_experts", 1, 1 << 16).value_or(missing.shared);
  if (reader.has("n_shared_experts") && reader.find("n_shared_experts") == nullptr)
    reader.refuse("n_shared_experts", fmt::format("expected a number of 1 or more: {} always has shared experts", file.architecture));
  model.routed_scaling_factor = reader.number("routed_scaling_factor", 0, 1e9).value_or(missing.scaling_factor);
  read_groups(reader, file, model);
  const std::int64_t choices = model.experts / model.routing_groups * model.kept_routing_groups;
  if (model.experts_per_token > choices) reader.refuse("num_experts_per_tok", fmt::format("expected at most {} experts", choices));
  const bool normalises = reader.boolean("norm_topk_prob").value_or(missing.normalise.value_or(false));
  if (missing.normalise) model.norm_topk_prob = normalises;
  if (!missing.normalise && normalises)
    warnings.push_back(
        fmt::format("{}: norm_topk_prob is not read by transformers in {}, and has no effect here", reader.where(), file.architecture));
  read_dense_layers(reader, file, model);
  expect_name(reader, "scoring_func", missing.score, file);
  // Published code adds a balance loss with these, transformers does not; and how many devices share the experts.
  for (const char* key : {"aux_loss_alpha", "seq_aux", "output_router_logits", "router_aux_loss_coef", "ep_size"})
    static_cast<void>(reader.find(key));
}

void write_routed_experts(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.routed) return;
  json["n_routed_experts"] = model.experts;
  json["num_experts_per_tok"] = model.experts_per_token;
  json["moe_intermediate_size"] = expert_width(model);
  json["n_shared_experts"] = model.shared_experts > 0 ? runtime::Json(model.shared_experts) : runtime::Json(nullptr);
  json["routed_scaling_factor"] = model.routed_scaling_factor;
  json["n_group"] = model.routing_groups;
  json["topk_group"] = model.kept_routing_groups;
  json["scoring_func"] = file.routed->score;
  json["topk_method"] = !file.routed->reads_method ? "noaux_tc" : model.routing_groups > 1 ? "group_limited_greedy" : "greedy";
  json["norm_topk_prob"] = file.routed->normalise && model.norm_topk_prob;
  json["first_k_dense_replace"] = model.first_dense_layers;
  json["moe_layer_freq"] = 1;
}

}  // namespace millrace::layers
