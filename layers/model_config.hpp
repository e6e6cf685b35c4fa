#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/activation.hpp"

namespace millrace::layers {

/// Decoder layers that a file may ask for at most. Each takes some 30 kB to describe before its weights are looked for.
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

/// Rotary position embedding, halves convention. theta is the base; the rest belongs to the kinds that use it.
struct RopeConfig {
  RopeKind kind = RopeKind::none;
  double theta = 10000.0;
  double factor = 1.0;                     // all kinds but default: how much longer the context became
  double low_freq_factor = 1.0;            // llama3: wavelengths above original / low are scaled wholly
  double high_freq_factor = 4.0;           // llama3: wavelengths below original / high are left alone
  std::int64_t original_max_position = 0;  // llama3, yarn, dynamic, longrope: the context length before scaling
  double beta_fast = 32.0;                 // yarn: what turns more often than this within the old context is left alone
  double beta_slow = 1.0;                  // yarn: what turns less often than this is scaled wholly
  bool truncate = true;                    // yarn: the ramp between begins and ends at whole numbers
  double proportion = 1.0;                 // proportional: this part of the pairs turns, the rest stands still
  double attention_factor = 0.0;           // yarn, longrope: multiplies cos and sin; 0: what the kind's paper recommends
  std::vector<double> short_factors = {};  // longrope: divide the frequencies of rows up to the old context [head_dim / 2]
  std::vector<double> long_factors = {};   // longrope: the same of longer rows

  bool operator==(const RopeConfig&) const = default;
};

/// Which keys a decoder layer's queries see: all before them, those of a window, or those of their own chunk of the row.
enum class LayerKind : std::uint8_t { full, sliding, chunked };

/// What positions do in a layer: they turn queries and keys, or nothing (NoPE: Kazemnejad et al., arXiv 2305.19466).
enum class LayerPositions : std::uint8_t { rotary, none };

/// A model as the keys of model.* say it, whether they come from a preset, a config.json or a run description. Every size is given (no zero
/// that stands for "derive it"). What each layer is made of follows from it by the family: layers/layer_spec.hpp. A family reads the
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
  std::int64_t head_dim = 0;  // even
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  RopeConfig rope_local{.theta = 0.0};          // the rotation of sliding layers; theta 0: they turn as the others
  std::int64_t sliding_window = 0;              // keys that a query of a sliding layer sees, its own the last
  std::vector<LayerKind> layer_kinds;           // one per layer; empty: all full
  double query_pre_attn_scalar = 0.0;           // scores are divided by its root; 0: by that of head_dim
  double attn_logit_softcapping = 0.0;          // scores s become cap·tanh(s / cap); 0: they stay
  double final_logit_softcapping = 0.0;         // the same of logits
  std::int64_t max_position_embeddings = 2048;  // recorded and exported; bounds a row only where positions are learned
  bool tie_word_embeddings = false;             // the output head uses the embedding table
  double initializer_range = 0.02;              // standard deviation of the initial weights

  // What blocks in the numerics of transformers may have besides.
  std::int64_t attention_chunk = 0;               // keys of a chunk: a query of a chunked layer sees those of its own
  std::vector<LayerPositions> layer_positions;    // one per layer; empty: all rotary
  bool attention_sinks = false;                   // a learned score per query head joins the softmax's sum
  bool attention_bias = false;                    // biases on queries, keys, values and the output projection
  bool mlp_bias = false;                          // biases on all projections of the MLP
  std::optional<kernels::Activation> hidden_act;  // of the MLP; none: the family's own
  bool scale_by_layer = false;                    // scores of layer i are divided by i + 1, too

  // What MaxText's blocks may have besides.
  kernels::Activation activation = kernels::Activation::silu;
  bool gated_mlp = true;                   // activation(x·wi_0) ⊙ x·wi_1; else activation(x·wi)
  bool fused_qkv = false;                  // one kernel for queries, keys and values; needs as many kv_heads as heads
  bool fused_mlp = false;                  // one kernel for wi_0 and wi_1
  bool share_kv = false;                   // the values are the projected keys
  bool rope_interleaved = false;           // pairs are neighbours, not halves of the head
  bool sinusoidal_positions = false;       // sines and cosines of the position are added to the embedding
  std::int64_t learned_positions = 0;      // rows of a learned table added to the embedding; 0: none
  double dropout_rate = 0.0;               // of features in training: embedding, MLP, layers' outputs, final norm
  bool normalize_embedding_logits = true;  // a tied head divides by √hidden_size

  bool operator==(const ModelConfig&) const = default;
};

/// What the file of a model says.
struct ConfigFile {
  ModelConfig model;
  double z_loss = 0;  // MaxText's stands in the same file; part of the loss wherever the file is used
  // bos_token_id, eos_token_id, pad_token_id where they are there, as JSON (a number or a list): not used here, but by who generates.
  std::vector<std::pair<std::string, std::string>> token_ids = {};
  // What a person should know: keys that nobody knows, dropout that is not applied, the z-loss. Every command that reads the file prints
  // them once.
  std::vector<std::string> warnings = {};
};

}  // namespace millrace::layers
