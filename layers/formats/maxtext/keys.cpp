#include "layers/formats/maxtext/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace millrace::layers {
namespace {

using runtime::Json;
using runtime::JsonReader;

/// The values with which MaxText switches something off. Null is equivalent to these values only.
bool is_off(const Json& value) { return value == false || value == 0 || value == -1 || value == "" || value == Json::array(); }

// Keys that cannot change any number that is computed here, grouped by reason.

/// Parts that are disabled by a fixed key, or read by read_maxtext_experts where layers have experts (else num_experts = 1): the loss of
/// prediction modules, which is read where there are some (mtp_num_layers > 0), hyper-connections (mhc_expansion_rate = 1), n-gram memories
/// (engram_layers = []; read_maxtext_engram reads those of blocks that may have some), the sparse indexer (use_indexer = false), MoBA (moba
/// = false), multi-head latent attention (attention_type = "global"), multimodal positions (use_mrope = false). Blocks that norm queries
/// and keys fix qk_norm_with_scale; in others it has no effect.
constexpr std::array parts_that_are_off = {
    "base_moe_mlp_dim",
    "capacity_factor",
    "enable_mhc_lite",
    "engram_head_dim",
    "engram_kernel_size",
    "engram_max_ngram_size",
    "engram_num_heads",
    "engram_seed",
    "engram_vocab_bases",
    "float32_gate_logits",
    "float32_weight_sum",
    "indexer_head_dim",
    "indexer_loss_scaling_factor",
    "indexer_n_heads",
    "indexer_sparse_training",
    "indexer_topk",
    "interleave_moe_layer_step",
    "kv_lora_rank",
    "megablox",
    "moba_chunk_size",
    "moba_topk",
    "moe_expert_input_dim",
    "moe_mlp_dim",
    "mrope_section",
    "mscale",
    "mtp_loss_scaling_factor",
    "n_routing_groups",
    "norm_topk_prob",
    "num_experts_per_tok",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_norm_with_scale",
    "qk_rope_head_dim",
    "routed_bias",
    "routed_bias_update_rate",
    "routed_scaling_factor",
    "routed_score_func",
    "sinkhorn_iterations",
    "sparse_matmul",
    "topk_routing_group",
    "use_random_routing",
    "v_head_dim",
};

/// Parts of other blocks: the gated delta net of hybrids, whose sizes read_maxtext_linear_attention reads there (its result does not depend
/// on gdn_chunk_size, the length of the chunks in which MaxText computes it); the global and sliding layers and the value norm of Gemma 4.
/// Where no layer slides, nothing rotates by local_rope_max_timescale; where one does, read_maxtext reads it.
constexpr std::array parts_of_other_blocks = {
    "gdn_chunk_size",           "gdn_conv_kernel_dim", "gdn_key_head_dim",    "gdn_num_key_heads",         "gdn_num_value_heads",
    "gdn_value_head_dim",       "global_head_dim",     "global_num_kv_heads", "global_rope_max_timescale", "global_rope_proportion",
    "local_rope_max_timescale", "v_norm_with_scale",
};

/// YaRN's numbers; where rope_type = "yarn" is supported, read_maxtext reads them.
constexpr std::array numbers_of_yarn = {
    "beta_fast",       "beta_slow",     "original_max_position_embeddings", "rope_attention_scaling", "rope_factor",
    "rope_interleave", "rope_truncate",
};

/// Keys of Llama 4's layers, which read_maxtext_chunks reads. Other blocks have one value of them.
constexpr std::array<std::string_view, 5> keys_of_chunks = {"chunk_attn_window_size", "inhomogeneous_layer_cycle_interval",
                                                            "nope_layer_interval", "temperature_tuning", "use_qk_norm"};

/// The choice between implementations of the same computation: a lookup as a product with one-hot rows, logits in slices, the
/// precision of products on a TPU (here a product of fp32 operands is always in fp32), layers that are scanned, whose weights the files
/// have as one tensor (layers/formats/scanned_layers.hpp).
constexpr std::array arrangement = {"inhomogeneous_layer_cycle_interval", "matmul_precision", "num_vocab_tiling", "scan_layers",
                                    "use_iota_embed"};

/// Settings of the run: its dtype, rows and clipping are train.dtype, train.sequence, train.clip. Tensors have their own dtype, and
/// initial values are the folder's weights, whatever distribution they were once drawn from.
constexpr std::array decided_by_the_run = {"dense_init_scale", "dtype", "gradient_clipping_threshold", "max_target_length", "weight_dtype"};

/// How the file's model was trained; only recorded steps are trained again in this way (actors/jobs/recorded_training.cpp).
constexpr std::array keys_of_training = {
    "adam_b1",
    "adam_b2",
    "adam_eps",
    "adam_eps_root",
    "adam_weight_decay",
    "adamw_mask",
    "gradient_accumulation_steps",
    "learning_rate",
    "learning_rate_final_fraction",
    "learning_rate_schedule_steps",
    "lr_schedule_type",
    "mu_dtype",
    "muon_beta",
    "muon_consistent_rms",
    "muon_weight_decay",
    "opt_type",
    "qk_clip_threshold",
    "skip_step_interval",
    "skip_step_on_spikes",
    "skip_step_scaling_factor",
    "steps",
    "trainable_parameters_mask",
    "use_qk_clip",
    "warmup_steps_fraction",
    "wsd_decay_steps_fraction",
    "wsd_decay_style",
};

/// MaxText derives `derived` from `key` by a factor, so the two must agree: otherwise MaxText would read another model from the file.
void check_size(JsonReader& reader, const char* key, const char* derived, std::int64_t factor) {
  const auto base = reader.integer(key, INT64_MIN, 1LL << 40);
  const auto size = reader.integer(derived, INT64_MIN, 1LL << 40);
  if (base && size && *base * factor != *size)
    reader.refuse(key, fmt::format("expected {} = {}{}", derived, *size, factor == 1 ? "" : fmt::format(" / {}", factor)));
}

/// The sizes before MaxText applies global_parameter_scale = 2^(3q + r), which increases widths before depth.
void check_sizes(JsonReader& reader, bool experts) {
  const auto scale = reader.integer("global_parameter_scale", 1, 1 << 20).value_or(1);
  if (!std::has_single_bit(static_cast<std::uint64_t>(scale))) reader.refuse("global_parameter_scale", "expected a power of 2");
  const int power = std::countr_zero(static_cast<std::uint64_t>(scale)), q = power / 3, r = power % 3;
  const std::int64_t width = std::int64_t{1} << (q + (r > 1 ? 1 : 0)), inner = std::int64_t{1} << (q + (r > 0 ? 1 : 0));
  check_size(reader, "base_emb_dim", "emb_dim", width);
  check_size(reader, "base_mlp_dim", "mlp_dim", inner);
  if (experts) check_size(reader, "base_moe_mlp_dim", "moe_mlp_dim", inner);
  check_size(reader, "base_num_query_heads", "num_query_heads", inner);
  check_size(reader, "base_num_kv_heads", "num_kv_heads", inner);
  check_size(reader, "base_num_decoder_layers", "num_decoder_layers", std::int64_t{1} << q);
}

/// The choice of the attention kernel changes no number, except cuDNN's, which also applies dropout to the probabilities.
void check_kernel(JsonReader& reader) {
  const std::string kernel = reader.text("attention").value_or("autoselected");
  const Json* rate = reader.find("dropout_rate");
  const Json* dropping = reader.find("enable_dropout");
  const bool drops = rate != nullptr && *rate != 0 && (dropping == nullptr || *dropping != false);
  if (kernel.starts_with("cudnn") && drops)
    reader.refuse("attention",
                  "which applies dropout_rate to attention probabilities too: supported with dropout are all kernels except cuDNN's");
}

/// Blocks without a soft cap would ignore the key silently.
void check_cap(JsonReader& reader, const MaxTextFile& file) {
  const Json* cap = reader.find("attn_logits_soft_cap");
  if (cap != nullptr && *cap != 0 && file.attention && !file.caps_scores)
    reader.refuse("attn_logits_soft_cap", fmt::format("supported by decoder_block \"{}\" is null; \"llama2\" has a cap", file.block));
}

/// The values of the blocks that do not say otherwise.
const std::vector<FixedKey>& common_fixed_keys() {
  static const std::vector<FixedKey> keys = {
      {"activations_in_float32", false},
      {"attention_bias", false},
      {"attention_output_dim", -1},
      {"attention_sink", false},
      {"attention_type", "global"},
      {"cast_logits_to_fp32", true},
      {"chunk_attn_window_size", 0},
      {"engram_layers", Json::array()},
      {"first_num_dense_layers", 0},
      {"float32_logits", false},
      {"float32_qk_product", false},
      {"grad_dtype", "float32"},
      {"inhomogeneous_layer_cycle_interval", 1},
      {"load_balance_loss_weight", 0.0},
      {"logits_dot_in_fp32", false},
      {"mhc_expansion_rate", 1},
      {"mlp_activations_limit", -1.0},
      {"mlp_bias", false},
      {"moba", false},
      {"mtp_num_layers", 0},
      {"nope_layer_interval", -1},
      {"num_experts", 1},
      {"param_scan_axis", 1},
      {"partial_rotary_factor", 1.0},
      {"quantization", ""},
      {"rope_linear_scaling_factor", 1.0},
      {"rope_min_timescale", 1},
      {"shared_experts", 0},
      {"sliding_window_size", 0},
      {"temperature_tuning", false},
      {"training_objective", "causal_lm"},
      {"use_indexer", false},
      {"use_mrope", false},
      {"use_multimodal", false},
      {"use_post_attn_norm", false},
      {"use_post_ffw_norm", false},
      {"use_qk_norm", false},
  };
  return keys;
}

}  // namespace

std::vector<FixedKey> maxtext_fixed_keys(const MaxTextFile& file) {
  std::vector<FixedKey> keys = file.fixed;
  for (const FixedKey& common : common_fixed_keys()) {
    if (file.windows && common.key == "sliding_window_size") continue;
    if (file.hybrid && (common.key == "inhomogeneous_layer_cycle_interval" || common.key == "partial_rotary_factor")) continue;
    if (file.sections && common.key == "use_mrope") continue;
    if (file.attention && common.key == "moba") continue;
    if (file.chunks && std::ranges::find(keys_of_chunks, common.key) != keys_of_chunks.end()) continue;
    if (file.experts && (common.key == "num_experts" || common.key == "load_balance_loss_weight")) continue;
    if (file.experts && file.experts->clamped && common.key == "mlp_activations_limit") continue;
    if (file.experts && file.experts->dense_first && common.key == "first_num_dense_layers") continue;
    if (file.experts && file.experts->shared != nullptr && common.key == "shared_experts") continue;
    if (file.latent && common.key == "use_indexer") continue;
    if (file.hyper && common.key == "mhc_expansion_rate") continue;
    if (file.engram && common.key == "engram_layers") continue;
    if (!file.per_layer_inputs && common.key == "mtp_num_layers") continue;
    if (file.linear_rope && common.key == "rope_linear_scaling_factor") continue;
    if (std::ranges::find(file.fixed, common.key, &FixedKey::key) == file.fixed.end()) keys.push_back(common);
  }
  return keys;
}

void check_maxtext_keys(JsonReader& reader, const MaxTextFile& file) {
  for (const FixedKey& fixed : maxtext_fixed_keys(file)) {
    const Json* value = reader.find(fixed.key);
    const bool equal = value != nullptr ? *value == fixed.value : !reader.has(fixed.key) || is_off(fixed.value);
    if (!equal) reader.refuse(fixed.key, fmt::format("supported is {}", fixed.value.dump()));
  }
  check_sizes(reader, file.experts.has_value());
  check_kernel(reader);
  check_cap(reader, file);
  const auto know = [&](const auto& keys) {
    for (const char* key : keys) static_cast<void>(reader.find(key));
  };
  know(parts_that_are_off);
  know(parts_of_other_blocks);
  if (!file.hybrid) static_cast<void>(reader.find("use_qk_norm_in_gdn"));
  know(numbers_of_yarn);
  know(arrangement);
  know(decided_by_the_run);
  know(keys_of_training);
}

}  // namespace millrace::layers
