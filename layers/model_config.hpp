#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/activation.hpp"
#include "kernels/base/route_options.hpp"
#include "kernels/base/short_convolution_options.hpp"
#include "runtime/program/loss_weights.hpp"

namespace millrace::layers {

/// The maximum number of decoder layers in a file. Describing a layer takes about 30 kB, before its weights are searched for.
inline constexpr std::int64_t max_layers = 4096;

/// How rotary frequencies are scaled for contexts longer than those trained on.
enum class RopeKind : std::uint8_t { none, linear, llama3, yarn, proportional, dynamic, longrope };

inline constexpr std::array all_rope_kinds = {RopeKind::none,         RopeKind::linear,  RopeKind::llama3,  RopeKind::yarn,
                                              RopeKind::proportional, RopeKind::dynamic, RopeKind::longrope};

[[nodiscard]] constexpr const char* to_string(RopeKind kind) noexcept {
  switch (kind) {
    case RopeKind::none:
      return "default";
    case RopeKind::linear:
      return "linear";
    case RopeKind::llama3:
      return "llama3";
    case RopeKind::yarn:
      return "yarn";
    case RopeKind::proportional:
      return "proportional";
    case RopeKind::dynamic:
      return "dynamic";
    case RopeKind::longrope:
      return "longrope";
  }
  return "?";
}

/// Rotary position embedding, halves convention. theta is the base; each other member is used only by the kinds named beside it.
struct RopeConfig {
  RopeKind kind = RopeKind::none;
  double theta = 10000.0;
  double factor = 1.0;                     // all kinds but default: the new context length divided by the old one
  double low_freq_factor = 1.0;            // llama3: frequencies with wavelengths above original / low are divided by factor
  double high_freq_factor = 4.0;           // llama3: frequencies with wavelengths below original / high are kept
  std::int64_t original_max_position = 0;  // llama3, yarn, dynamic, longrope: the context length before scaling
  double beta_fast = 32.0;                 // yarn: pairs with more rotations than this within the old context keep their frequency
  double beta_slow = 1.0;                  // yarn: the frequencies of pairs with fewer rotations than this are divided by factor
  bool truncate = true;                    // yarn: the bounds of the ramp between the two are rounded to whole pair indices
  double proportion = 1.0;                 // the fraction of every head that is rotated (layers/rotary.hpp)
  double attention_factor = 0.0;           // yarn, longrope: multiplies cos and sin; 0: the paper's recommendation
  double mscale_all_dim = 0.0;             // latent attention, all kinds but default: multiplies scores by (0.1·this·ln(factor) + 1)²
  std::vector<double> short_factors = {};  // longrope: divide the frequencies of rows up to the old context, one per pair
  std::vector<double> long_factors = {};   // longrope: the same for longer rows

  bool operator==(const RopeConfig&) const = default;
};

/// The number of a head's features over which the frequencies are spread. Python truncates the product.
[[nodiscard]] inline std::int64_t rotary_dim(const RopeConfig& rope, std::int64_t head_dim) {
  if (rope.kind == RopeKind::proportional) return head_dim;
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.proportion);
}

/// The number of pairs of a head that are rotated, each with a frequency: an odd number of features is rounded up, as in transformers.
[[nodiscard]] inline std::int64_t rotary_pairs(const RopeConfig& rope, std::int64_t head_dim) {
  return (rotary_dim(rope, head_dim) + 1) / 2;
}

/// How a decoder layer mixes tokens: its queries attend to all keys before them, to those in a window, or to those in their own chunk of
/// the row; or it is a gated delta net (linear attention).
enum class LayerKind : std::uint8_t { full, sliding, chunked, linear };

/// The position encoding of a layer: rotary, or none (NoPE: Kazemnejad et al., arXiv 2305.19466).
enum class LayerPositions : std::uint8_t { rotary, none };

/// What computes on each token of a layer: one MLP, or a mixture of experts.
enum class MlpKind : std::uint8_t { dense, sparse };

/// The n-gram memory of some layers (Engram; MaxText's keys engram_…): a token looks up rows of tables by hashes of the n-grams that end at
/// it, whose ids are compressed: tokens that spell the same text have one id (runtime/data/token_compression.hpp).
struct EngramConfig {
  std::vector<std::int64_t> layers;        // that have one, counted from 0, in the order in which tables are given out; empty: none
  std::int64_t max_ngram = 3;              // n-grams of 2 to this many tokens
  std::int64_t heads = 8;                  // tables of each order
  std::int64_t head_dim = 1280;            // of a table's rows
  std::vector<std::int64_t> vocab_bases;   // the least rows of a table, one for each order
  std::int64_t kernel_size = 4;            // taps of the convolution
  std::int64_t seed = 0;                   // of the hashes
  std::int64_t compressed_vocab_size = 0;  // number of compressed ids
  std::int64_t compressed_pad_id = 0;      // the compressed id of the padding token, which stands before a row's first token

  bool operator==(const EngramConfig&) const = default;
};

/// A model in terms of the keys model.*, whether they come from a preset, a config.json or a run description. Every size is set (no zero
/// that stands for "derive it"). The family derives the parts of each layer from it: layers/layer_spec.hpp. A family reads the
/// members that its traits list (layers/family_traits.hpp).
struct ModelConfig {
  std::string family = "llama";
  std::string numerics = "hf";  // as transformers computes it; see docs/numerics.md
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;        // D
  std::int64_t intermediate_size = 0;  // width of the MLP
  std::int64_t layers = 0;
  std::int64_t heads = 0;     // query heads
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;  // even; with latent attention qk_rope_head_dim
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  RopeConfig rope_local{.theta = 0.0};          // for sliding-window layers; theta 0: the same as rope
  bool causal = true;                           // queries attend to no later key; false: to both sides
  std::int64_t sliding_window = 0;              // keys that a query of a sliding-window layer attends to, its own among them; without
                                                // causal: as many to each side of its own
  std::vector<LayerKind> layer_kinds;           // one per layer; empty: full attention in all
  double query_pre_attn_scalar = 0.0;           // scores are divided by its square root; 0: head_dim's
  double attn_logit_softcapping = 0.0;          // scores s become cap·tanh(s / cap); 0: no cap
  double final_logit_softcapping = 0.0;         // the same for logits
  std::int64_t max_position_embeddings = 2048;  // recorded and exported; limits a row only if positions are learned
  bool tie_word_embeddings = false;             // the output head uses the embedding table
  std::int64_t mhc_expansion_rate = 1;          // residual streams of hyper-connections; 1: there is one, and no such connections
  std::int64_t sinkhorn_iterations = 20;        // by which their maps are normalised
  bool mhc_lite = false;                        // their maps are means of permutations
  EngramConfig engram;                          // n-gram memories of layers
  std::int64_t mtp_layers = 0;                  // modules of multi-token prediction behind the layers (layers/models/mtp.hpp)
  double initializer_range = 0.02;              // standard deviation of the initial weights

  // Only with the numerics of transformers:
  std::int64_t attention_chunk = 0;               // keys per chunk; a query of a chunked layer attends to its own chunk only
  std::vector<LayerPositions> layer_positions;    // one per layer; empty: all rotary
  bool attention_sinks = false;                   // the softmax's sum includes a learned score per query head
  bool attention_bias = false;                    // biases on queries, keys, values and the output projection
  bool mlp_bias = false;                          // biases on all projections of the MLP
  std::optional<kernels::Activation> hidden_act;  // of the MLP; not set: the family's default
  bool scale_by_layer = false;                    // scores of layer i are also divided by i + 1

  bool rope_interleaved = false;  // rotary pairs are neighbours, not halves of the head

  // Multi-head latent attention, in families that have it:
  std::int64_t q_lora_rank = 0;       // width of the queries' latent vector; 0: they have none
  std::int64_t kv_lora_rank = 0;      // width of the latent vector of keys and values
  std::int64_t qk_nope_head_dim = 0;  // of a head of queries and keys, not rotated
  std::int64_t qk_rope_head_dim = 0;  // of a head of queries and keys, rotated; even
  std::int64_t v_head_dim = 0;        // of a head of values
  std::int64_t index_n_heads = 0;     // heads of the indexer, which chooses the keys of a query
  std::int64_t index_head_dim = 0;    // of a head of the indexer
  std::int64_t index_topk = 0;        // keys that a query attends to; 0: there is no indexer, and it attends to all

  // Gated delta nets, which linear layers are:
  std::int64_t linear_key_heads = 0;        // of queries and keys
  std::int64_t linear_value_heads = 0;      // a multiple of linear_key_heads
  std::int64_t linear_key_head_dim = 0;     // of queries and keys
  std::int64_t linear_value_head_dim = 0;   // of values
  std::int64_t linear_conv_kernel_dim = 0;  // tokens that the convolution sees, its own the last; kernels::max_convolution_taps or fewer

  // In Gemma 4:
  std::int64_t global_head_dim = 0;       // of full layers; 0: head_dim
  std::int64_t global_kv_heads = 0;       // of full layers; 0: kv_heads
  bool share_kv = false;                  // the values are the projected keys, in Gemma 4 those of full layers; also in MaxText's blocks
  std::int64_t per_layer_input_size = 0;  // width of what each layer knows of a token by itself; 0: nothing
  std::int64_t per_layer_vocab_size = 0;  // rows of its table
  std::int64_t kv_shared_layers = 0;      // the last layers, which attend to the keys and values of the last other layer of their kind
  bool double_wide_mlp = false;           // the MLPs of these are twice as wide

  // In Llama 4:
  bool use_qk_norm = false;              // rotated queries and keys are divided by their root mean square, head by head
  bool attn_temperature_tuning = false;  // queries of layers without rotation are multiplied by a factor that rises with the position p:
  double attn_scale = 0.1;               // attn_scale·ln(1 + ⌊(p + 1) / floor_scale⌋) + 1
  std::int64_t floor_scale = 8192;

  // Mixtures of experts:
  std::int64_t experts = 0;                // E; 0: every layer has one MLP
  std::int64_t experts_per_token = 0;      // K
  std::int64_t moe_intermediate_size = 0;  // width of an expert; 0: intermediate_size (expert_width())
  bool norm_topk_prob = true;              // the weights of a token's experts are divided by their sum
  std::vector<MlpKind> mlp_kinds;          // one per layer; empty: all are mixtures, if there are experts
  std::int64_t first_dense_layers = 0;     // the first layers, which have one MLP whatever mlp_kinds says
  std::int64_t shared_experts = 0;         // experts of every token, computed as one MLP of as many times the width
  // Width of the expert that every token has, in families whose files name it; 0: that of the other experts.
  std::int64_t shared_expert_intermediate_size = 0;
  double swiglu_limit = 7.0;                                        // above 0: an expert's gate is at most this, and the size of its up
  double swiglu_alpha = 1.702;                                      // multiplies the gate within its sigmoid
  kernels::RouterScore routed_score = kernels::RouterScore::logit;  // maxtext: the score of an expert, a function of the router's logits
  kernels::RouterBias routed_bias = kernels::RouterBias::none;      // maxtext: the use of a learned bias per expert
  double routed_scaling_factor = 1.0;                               // multiplies the weights of a token's experts
  std::int64_t routing_groups = 1;                                  // experts are chosen from the best of so many groups
  std::int64_t kept_routing_groups = 1;                             // the number of these groups that are kept
  double capacity_factor = 0;        // an expert takes this many times its even share of a sequence's choices; 0: all
  bool float32_gate_logits = false;  // maxtext: the router computes in fp32; else in the compute dtype

  // Only with the numerics of MaxText:
  kernels::Activation activation = kernels::Activation::silu;
  bool gated_mlp = true;                   // activation(x·wi_0) ⊙ x·wi_1; else activation(x·wi)
  bool fused_qkv = false;                  // one kernel for queries, keys and values; needs as many kv_heads as heads
  bool fused_mlp = false;                  // one kernel for wi_0 and wi_1
  bool sinusoidal_positions = false;       // sines and cosines of the position are added to the embedding
  std::int64_t learned_positions = 0;      // rows of a learned table added to the embedding; 0: none
  double dropout_rate = 0.0;               // of features in training: embedding, MLP, layers' outputs, final norm
  bool normalize_embedding_logits = true;  // a tied head divides by √hidden_size
  bool gdn_reset_at_segments = false;      // linear layers begin anew at every document of a packed row
  std::int64_t moba_chunk_size = 0;        // keys per block of MoBA, of which a query attends to moba_topk; 0: no such blocks
  std::int64_t moba_topk = 8;

  bool operator==(const ModelConfig&) const = default;
};

/// F, the width of an expert.
[[nodiscard]] inline std::int64_t expert_width(const ModelConfig& config) {
  return config.moe_intermediate_size > 0 ? config.moe_intermediate_size : config.intermediate_size;
}

/// The family as lists and reports name it: with its numerics if they are not hf, since both may have a family of one name.
[[nodiscard]] inline std::string family_title(const ModelConfig& config) {
  return config.numerics == "hf" ? config.family : config.family + " (" + config.numerics + ")";
}

/// The contents of a model's config file.
struct ConfigFile {
  ModelConfig model;
  // MaxText has weights of loss terms in the same file; these terms are part of the loss of every run with this file.
  runtime::LossWeights losses = {};
  // bos_token_id, eos_token_id, pad_token_id if the file has them, as JSON (a number or a list): kept for export, not used here.
  std::vector<std::pair<std::string, std::string>> token_ids = {};
  // For the user: unknown keys, dropout that is not applied, the z-loss. Every command that reads the file prints
  // them once.
  std::vector<std::string> warnings = {};
};

}  // namespace millrace::layers
