#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/base/route_options.hpp"
#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {

// Gemma 4: with enable_moe_block every layer has a mixture of experts beside its dense MLP.
void read_expert_branch(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.expert_branch) return;
  // All keys are read even if the block is off, so that none of them counts as unknown.
  const bool enabled = reader.boolean("enable_moe_block").value_or(false);
  const auto experts = reader.integer("num_experts", 0, kernels::max_experts),
             top_k = reader.integer("top_k_experts", 0, kernels::max_experts);
  // Older files call the width expert_intermediate_size.
  const bool is_old = !reader.has("moe_intermediate_size") && reader.has("expert_intermediate_size");
  const char* width_key = is_old ? "expert_intermediate_size" : "moe_intermediate_size";
  const auto width = reader.integer(width_key, 0, 1 << 24);
  if (!enabled) return;
  const auto required = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value.value_or(0) < 1) reader.refuse(key, "expected 1 or more, since enable_moe_block is true");
    return *value;
  };
  model.experts = required("num_experts", experts);
  model.experts_per_token = required("top_k_experts", top_k);
  model.moe_intermediate_size = required(width_key, width);
  if (model.experts_per_token > model.experts)
    reader.refuse("top_k_experts", fmt::format("expected at most num_experts = {}", model.experts));
}

void write_expert_branch(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.expert_branch) return;
  const bool enabled = model.experts > 0;
  const auto number = [&](std::int64_t value) { return enabled ? runtime::Json(value) : runtime::Json(nullptr); };
  json["enable_moe_block"] = enabled;
  json["num_experts"] = number(model.experts);
  json["top_k_experts"] = number(model.experts_per_token);
  json["moe_intermediate_size"] = number(expert_width(model));
}

}  // namespace millrace::layers
