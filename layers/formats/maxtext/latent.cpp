#include "layers/formats/maxtext/latent.hpp"

#include <fmt/format.h>

namespace millrace::layers {

void read_maxtext_latent(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  if (!file.latent) return;
  model.q_lora_rank = reader.integer("q_lora_rank", 0, 1 << 20).value_or(0);
  model.kv_lora_rank = reader.size("kv_lora_rank", 1 << 20, 512);
  model.qk_nope_head_dim = reader.size("qk_nope_head_dim", 1 << 16, 128);
  model.qk_rope_head_dim = reader.size("qk_rope_head_dim", 1 << 16, 64);
  model.v_head_dim = reader.size("v_head_dim", 1 << 16, 128);
  if (model.qk_rope_head_dim % 2 != 0) reader.refuse("qk_rope_head_dim", "expected an even number");
  if (model.kv_heads != model.heads) reader.refuse("num_kv_heads", fmt::format("expected num_query_heads = {}", model.heads));
  if (model.fused_qkv) reader.refuse("fused_qkv", fmt::format("supported by decoder_block \"{}\" is false", file.block));
  if (model.rope.kind != RopeKind::yarn)
    reader.refuse("rope_type", fmt::format("supported by decoder_block \"{}\" is \"yarn\"", file.block));
  model.rope.mscale_all_dim = reader.number("mscale", 0, 1e6).value_or(1.0);
  // MaxText sizes caches by head_dim; the heads that are computed have the widths above.
  model.head_dim = model.qk_rope_head_dim;
}

void write_maxtext_latent(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.latent) return;
  json["q_lora_rank"] = model.q_lora_rank;
  json["kv_lora_rank"] = model.kv_lora_rank;
  json["qk_nope_head_dim"] = model.qk_nope_head_dim;
  json["qk_rope_head_dim"] = model.qk_rope_head_dim;
  json["v_head_dim"] = model.v_head_dim;
  json["mscale"] = model.rope.mscale_all_dim;
}

}  // namespace millrace::layers
