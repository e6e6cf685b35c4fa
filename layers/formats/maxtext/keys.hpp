#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "layers/model_config.hpp"
#include "layers/moe/maxtext_experts.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// A key of MaxText and the only supported value.
struct FixedKey {
  std::string key;
  runtime::Json value;
};

/// The config.json of a decoder_block of MaxText: the keys that the block reads, and the values that it has for others.
struct MaxTextFile {
  std::string block;                           // decoder_block
  bool attention = true;                       // has attention and an MLP
  bool rotary = true;                          // queries and keys are rotated
  bool caps_scores = false;                    // uses attn_logits_soft_cap
  bool shares_kv = false;                      // uses share_kv_projections
  bool windows = false;                        // has sliding layers: uses sliding_window_size and local_rope_max_timescale
  bool chunks = false;                         // layers attend to chunks, or have no rotation (layers/formats/maxtext/chunks.hpp)
  bool linear_rope = false;                    // uses rope_linear_scaling_factor, in layers that do not slide
  bool yarn = false;                           // rope_type may be "yarn"
  std::optional<MaxTextExperts> experts = {};  // has layers of experts
  bool hyper = false;                          // may have hyper-connections
  bool engram = false;                         // layers may have n-gram memories
  bool latent = false;                         // attention is multi-head latent attention
  bool hybrid = false;                         // layers of linear attention, and full ones that rotate heads in part
  bool sections = false;                       // hybrid: use_mrope and mrope_section
  bool full_layers = false;           // full layers have sizes and a rotation of their own (layers/formats/maxtext/full_layers.hpp)
  bool per_layer_inputs = false;      // layers have inputs of their own, and the last may share keys and values
  std::vector<LayerKind> kinds = {};  // of the layers, repeated; empty: all are alike
  // The values of model_name by which MaxText selects parts of the block; the first is exported. Empty: any name.
  std::vector<std::string> model_names = {};
  std::map<std::string, std::vector<LayerKind>> kinds_by_name = {};  // the names of these under which `kinds` is another list
  // The one of these names whose scores are divided by √(base_emb_dim // base_num_query_heads), not by √head_dim.
  std::string scaled_by_width = {};
  std::vector<FixedKey> fixed = {};  // values that other blocks do not have
};

/// The keys whose value the block determines. They are also written out on export.
[[nodiscard]] std::vector<FixedKey> maxtext_fixed_keys(const MaxTextFile& file);

/// Checks every key of MaxText that read_maxtext does not read: Error(model) if its value would change a number that is computed here;
/// the others have no effect in the block and cause no warning.
void check_maxtext_keys(runtime::JsonReader& reader, const MaxTextFile& file);

}  // namespace millrace::layers
