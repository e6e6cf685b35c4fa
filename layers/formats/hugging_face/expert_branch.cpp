#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {

void read_expert_branch(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.expert_branch) return;
  const bool enabled = reader.boolean("enable_moe_block").value_or(false);
  const auto experts = reader.integer("num_experts", 0, 1 << 16), chosen = reader.integer("top_k_experts", 0, 1 << 16);
  // The second name is that of older files.
  const char* width_key =
      !reader.has("moe_intermediate_size") && reader.has("expert_intermediate_size") ? "expert_intermediate_size" : "moe_intermediate_size";
  const auto width = reader.integer(width_key, 0, 1 << 24);
  if (!enabled) return;
  const auto required = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value.value_or(0) < 1) reader.refuse(key, "expected 1 or more with enable_moe_block = true");
    return *value;
  };
  model.experts = required("num_experts", experts);
  model.experts_per_token = required("top_k_experts", chosen);
  model.moe_intermediate_size = required(width_key, width);
  if (model.experts_per_token > model.experts) reader.refuse("top_k_experts", fmt::format("of {} experts", model.experts));
}

void write_expert_branch(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.expert_branch) return;
  const auto number = [&](std::int64_t value) { return model.experts > 0 ? runtime::Json(value) : runtime::Json(nullptr); };
  json["enable_moe_block"] = model.experts > 0;
  json["num_experts"] = number(model.experts);
  json["top_k_experts"] = number(model.experts_per_token);
  json["moe_intermediate_size"] = number(expert_width(model));
}

}  // namespace millrace::layers
