#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/route_options.hpp"
#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

/// The number of experts, under either of its names: version 5 writes the first where older files of the same class have the second.
std::int64_t read_count(runtime::JsonReader& reader, const HuggingFaceExperts& experts) {
  constexpr const char* names[] = {"num_local_experts", "num_experts"};
  const auto local = reader.integer(names[0], 0, kernels::max_experts), other = reader.integer(names[1], 0, kernels::max_experts);
  if (local && other && *local != *other) reader.refuse(names[1], fmt::format("which contradicts {} = {}", names[0], *local));
  return local ? *local : other.value_or(experts.count);
}

/// Which layers have an MLP in place of experts: those of mlp_only_layers, and all but every n-th.
std::vector<MlpKind> read_mlp_kinds(runtime::JsonReader& reader, std::int64_t layers) {
  const std::int64_t step = reader.integer("decoder_sparse_step", 1, max_layers).value_or(1);
  std::vector<MlpKind> kinds(static_cast<std::size_t>(layers), MlpKind::dense);
  for (std::int64_t i = step - 1; i < layers; i += step) kinds[static_cast<std::size_t>(i)] = MlpKind::sparse;
  if (const runtime::Json* dense = reader.find("mlp_only_layers")) {
    const auto is_layer = [](const runtime::Json& entry) { return entry.is_number_integer() && entry.get<std::int64_t>() >= 0; };
    if (!dense->is_array() || !std::ranges::all_of(*dense, is_layer)) reader.refuse("mlp_only_layers", "expected a list of layers");
    for (const runtime::Json& entry : *dense)
      if (const auto layer = entry.get<std::int64_t>(); layer < layers) kinds[static_cast<std::size_t>(layer)] = MlpKind::dense;
  }
  if (std::ranges::find(kinds, MlpKind::dense) == kinds.end()) kinds.clear();
  return kinds;
}

/// Which layers have experts in a class with the key moe_layers: those that it names, or every n-th.
std::vector<MlpKind> read_moe_layers(runtime::JsonReader& reader, std::int64_t layers) {
  const std::int64_t step = reader.integer("interleave_moe_layer_step", 1, 1LL << 40).value_or(1);
  std::vector<MlpKind> kinds(static_cast<std::size_t>(layers), MlpKind::dense);
  const runtime::Json* named = reader.find("moe_layers");
  for (std::int64_t i = step - 1; named == nullptr && i < layers; i += step) kinds[static_cast<std::size_t>(i)] = MlpKind::sparse;
  if (named != nullptr) {
    const auto is_layer = [&](const runtime::Json& entry) { return entry.is_number_integer() && entry >= 0 && entry < layers; };
    if (!named->is_array() || !std::ranges::all_of(*named, is_layer))
      reader.refuse("moe_layers", fmt::format("expected a list of layers from 0 to {}", layers - 1));
    for (const runtime::Json& entry : *named) kinds[entry.get<std::size_t>()] = MlpKind::sparse;
  }
  if (std::ranges::find(kinds, MlpKind::dense) == kinds.end()) kinds.clear();
  return kinds;
}

/// The widths of a class in which intermediate_size, which `model` has as the width of its MLPs, is an expert's.
void read_dense_size(runtime::JsonReader& reader, const HuggingFaceExperts& experts, ModelConfig& model) {
  model.moe_intermediate_size = model.intermediate_size;
  model.intermediate_size = reader.size("intermediate_size_mlp", 1 << 24, experts.dense_size);
}

}  // namespace

void read_experts(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings) {
  if (!file.experts) return;
  const HuggingFaceExperts& experts = *file.experts;
  model.experts = read_count(reader, experts);
  const std::int64_t per_token = reader.integer("num_experts_per_tok", 1, kernels::max_experts).value_or(experts.per_token);
  const std::int64_t size = experts.has_size ? reader.integer("moe_intermediate_size", 1, 1 << 24).value_or(experts.size) : 0;
  const std::int64_t shared =
      experts.shared > 0 ? reader.integer("shared_expert_intermediate_size", 1, 1 << 24).value_or(experts.shared) : 0;
  const bool normalise = !experts.normalise || reader.boolean("norm_topk_prob").value_or(*experts.normalise);
  auto kinds = experts.has_dense_layers ? read_mlp_kinds(reader, model.layers)
               : experts.has_moe_layers ? read_moe_layers(reader, model.layers)
                                        : std::vector<MlpKind>();
  if (reader.number("router_jitter_noise", 0, 1e9).value_or(0) != 0)
    warnings.push_back(fmt::format("{}: router_jitter_noise is not applied", reader.where()));
  const bool adds_loss = reader.boolean("output_router_logits").value_or(false);
  if (const double weight = reader.number("router_aux_loss_coef", 0, 1e9).value_or(experts.balance_weight); adds_loss && weight > 0)
    warnings.push_back(
        fmt::format("{}: output_router_logits and router_aux_loss_coef = {} add no balance loss here: train.balance_loss does",
                    reader.where(), weight));
  if (experts.dense_size > 0) read_dense_size(reader, experts, model);
  const bool all_dense = std::ranges::count(kinds, MlpKind::dense) == model.layers;
  if (experts.has_moe_layers && model.experts == 0 && !all_dense)
    reader.refuse(reader.has("num_local_experts") ? "num_local_experts" : "num_experts", "expected 1 or more: some layers have experts");
  if (model.experts == 0 && experts.needs_some) reader.refuse("num_local_experts", "expected 1 or more: every layer has experts");
  if (experts.has_clamp) {
    model.swiglu_limit = reader.number("swiglu_limit", 1e-9, 1e9).value_or(model.swiglu_limit);
    model.swiglu_alpha = reader.number("swiglu_alpha", -1e9, 1e9).value_or(model.swiglu_alpha);
  }
  if (model.experts == 0) return;
  if (per_token > model.experts)
    reader.refuse("num_experts_per_tok", fmt::format("expected at most the number of experts, {}", model.experts));
  model.experts_per_token = per_token;
  if (experts.dense_size == 0) model.moe_intermediate_size = size;
  model.shared_expert_intermediate_size = shared;
  model.norm_topk_prob = normalise;
  model.mlp_kinds = std::move(kinds);
}

void write_experts(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.experts) return;
  json["num_local_experts"] = model.experts;
  json["num_experts"] = model.experts;
  json["num_experts_per_tok"] = std::max<std::int64_t>(model.experts_per_token, 1);
  if (file.experts->has_size) json["moe_intermediate_size"] = expert_width(model);
  if (file.experts->shared > 0)
    json["shared_expert_intermediate_size"] =
        model.shared_expert_intermediate_size > 0 ? model.shared_expert_intermediate_size : expert_width(model);
  if (file.experts->dense_size > 0) {
    json["intermediate_size"] = expert_width(model);
    json["intermediate_size_mlp"] = model.intermediate_size;
  }
  if (file.experts->has_moe_layers) {
    json["moe_layers"] = runtime::OrderedJson::array();
    for (std::int64_t i = 0; model.experts > 0 && i < model.layers; ++i)
      if (model.mlp_kinds.empty() || model.mlp_kinds[static_cast<std::size_t>(i)] == MlpKind::sparse) json["moe_layers"].push_back(i);
  }
  if (file.experts->normalise) json["norm_topk_prob"] = model.norm_topk_prob;
  if (file.experts->has_clamp) json["swiglu_limit"] = model.swiglu_limit, json["swiglu_alpha"] = model.swiglu_alpha;
  if (!file.experts->has_dense_layers) return;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = runtime::OrderedJson::array();
  for (std::size_t i = 0; i < model.mlp_kinds.size(); ++i)
    if (model.mlp_kinds[i] == MlpKind::dense) json["mlp_only_layers"].push_back(i);
}

}  // namespace millrace::layers
