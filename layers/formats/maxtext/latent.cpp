#include "layers/formats/maxtext/latent.hpp"

#include <fmt/format.h>

namespace millrace::layers {

namespace {

/// The sparse indexer of DeepSeek-V3.2. As in MaxText, nothing but the indexer is trained if it has a loss and indexer_sparse_training is
/// false.
void read_indexer_keys(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses) {
  if (!reader.boolean("use_indexer").value_or(false)) {
    for (const char* key :
         {"indexer_n_heads", "indexer_head_dim", "indexer_topk", "indexer_sparse_training", "indexer_loss_scaling_factor"})
      static_cast<void>(reader.find(key));
    return;
  }
  model.index_n_heads = reader.size("indexer_n_heads", 1 << 16, 64);
  model.index_head_dim = reader.size("indexer_head_dim", 1 << 16, 128);
  model.index_topk = reader.size("indexer_topk", 1LL << 31, 2048);
  if (model.index_head_dim < model.qk_rope_head_dim)
    reader.refuse("indexer_head_dim", fmt::format("expected qk_rope_head_dim = {} or more", model.qk_rope_head_dim));
  if (model.q_lora_rank == 0)
    reader.refuse("q_lora_rank", fmt::format("expected 1 or more with use_indexer in decoder_block \"{}\"", file.block));
  losses.indexer_loss = reader.number("indexer_loss_scaling_factor", 0, 1e3).value_or(0);
  const bool sparse = reader.boolean("indexer_sparse_training").value_or(false);
  losses.indexer_warmup = losses.indexer_loss > 0 && !sparse;
}

}  // namespace

void read_maxtext_latent(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses) {
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
  read_indexer_keys(reader, file, model, losses);
}

void write_maxtext_latent(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model,
                          const runtime::LossWeights& losses) {
  if (!file.latent) return;
  json["q_lora_rank"] = model.q_lora_rank;
  json["kv_lora_rank"] = model.kv_lora_rank;
  json["qk_nope_head_dim"] = model.qk_nope_head_dim;
  json["qk_rope_head_dim"] = model.qk_rope_head_dim;
  json["v_head_dim"] = model.v_head_dim;
  json["mscale"] = model.rope.mscale_all_dim;
  json["use_indexer"] = model.index_topk > 0;
  if (model.index_topk == 0) return;
  json["indexer_n_heads"] = model.index_n_heads;
  json["indexer_head_dim"] = model.index_head_dim;
  json["indexer_topk"] = model.index_topk;
  json["indexer_loss_scaling_factor"] = losses.indexer_loss;
  json["indexer_sparse_training"] = !losses.indexer_warmup;
}

}  // namespace millrace::layers
