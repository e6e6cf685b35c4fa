#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {
namespace {

/// transformers' names for a layer with an indexer, which differ between its versions.
constexpr std::array indexed_layers = {"indexed_attention", "deepseek_sparse_attention", "dynamic_sparse_attention"};

}  // namespace

void read_indexer(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model) {
  if (!file.indexer) return;
  model.index_n_heads = reader.size("index_n_heads", 1 << 16, file.indexer->heads);
  model.index_head_dim = reader.size("index_head_dim", 1 << 16, file.indexer->head_dim);
  model.index_topk = reader.size("index_topk", 1LL << 31, file.indexer->keys);
  if (model.index_head_dim < model.qk_rope_head_dim)
    reader.refuse("index_head_dim", fmt::format("expected qk_rope_head_dim = {} or more", model.qk_rope_head_dim));
  if (model.q_lora_rank == 0)
    reader.refuse("q_lora_rank", "expected a number of 1 or more: the indexer's queries are expanded from this vector");
  const runtime::Json* kinds = reader.find("layer_types");
  if (kinds == nullptr) return;
  const bool all = kinds->is_array() && static_cast<std::int64_t>(kinds->size()) == model.layers &&
                   std::ranges::all_of(*kinds, [](const runtime::Json& kind) {
                     return std::ranges::any_of(indexed_layers, [&](const char* name) { return kind == name; });
                   });
  if (!all)
    reader.refuse("layer_types",
                  fmt::format("expected \"{}\" (or an older name) for each of the {} layers", indexed_layers.front(), model.layers));
}

void write_indexer(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model) {
  if (!file.indexer) return;
  json["index_n_heads"] = model.index_n_heads;
  json["index_head_dim"] = model.index_head_dim;
  json["index_topk"] = model.index_topk;
}

}  // namespace millrace::layers
