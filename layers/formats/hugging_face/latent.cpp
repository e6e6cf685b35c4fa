#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {

void read_latent(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings) {
  if (!file.latent) return;
  const HuggingFaceLatent& missing = *file.latent;
  // transformers projects queries directly if the rank is null.
  const bool given = reader.has("q_lora_rank");
  model.q_lora_rank = reader.integer("q_lora_rank", 1, 1 << 20).value_or(given ? 0 : missing.query_rank);
  model.kv_lora_rank = reader.size("kv_lora_rank", 1 << 20, missing.kv_rank);
  model.qk_nope_head_dim = reader.size("qk_nope_head_dim", 1 << 16, missing.nope_head_dim);
  model.qk_rope_head_dim = reader.size("qk_rope_head_dim", 1 << 16, missing.rope_head_dim);
  model.v_head_dim = reader.size("v_head_dim", 1 << 16, missing.v_head_dim);
  if (model.qk_rope_head_dim % 2 != 0) reader.refuse("qk_rope_head_dim", "expected an even number (rotary embedding rotates pairs)");
  if (model.kv_heads != model.heads)
    reader.refuse("num_key_value_heads", fmt::format("expected num_attention_heads = {}: every head has keys of its own", model.heads));
  // Version 5 writes both widths of a head, the first as that of the rotated part. They follow from the others.
  static_cast<void>(reader.find("head_dim"));
  model.head_dim = model.qk_rope_head_dim;
  const std::int64_t whole = model.qk_nope_head_dim + model.qk_rope_head_dim;
  if (const auto head = reader.integer("qk_head_dim", 1, 1 << 20); head && *head != whole)
    reader.refuse("qk_head_dim", fmt::format("expected qk_nope_head_dim + qk_rope_head_dim = {}", whole));
  const bool interleaved = reader.boolean("rope_interleave").value_or(true);
  model.rope_interleaved = interleaved && missing.reads_interleave;
  if (!interleaved && !missing.reads_interleave)
    warnings.push_back(
        fmt::format("{}: rope_interleave is not read by transformers in {}, and has no effect here", reader.where(), file.architecture));
}

void write_latent(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.latent) return;
  json["q_lora_rank"] = model.q_lora_rank > 0 ? runtime::Json(model.q_lora_rank) : runtime::Json(nullptr);
  json["kv_lora_rank"] = model.kv_lora_rank;
  json["qk_nope_head_dim"] = model.qk_nope_head_dim;
  json["qk_rope_head_dim"] = model.qk_rope_head_dim;
  json["v_head_dim"] = model.v_head_dim;
  if (file.latent->reads_interleave) json["rope_interleave"] = model.rope_interleaved;
}

}  // namespace millrace::layers
