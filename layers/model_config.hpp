#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/activation.hpp"

namespace millrace::layers {

/// How rotary frequencies are scaled for contexts longer than those trained on.
enum class RopeKind : std::uint8_t { none, linear, llama3, yarn, proportional };

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
  }
  return "?";
}

/// Rotary position embedding, halves convention. theta is the base; the rest belongs to the kinds that use it.
struct RopeConfig {
  RopeKind kind = RopeKind::none;
  double theta = 10000.0;
  double factor = 1.0;                     // linear, llama3, yarn: positions are divided by this
  double low_freq_factor = 1.0;            // llama3: wavelengths above original / low are scaled wholly
  double high_freq_factor = 4.0;           // llama3: wavelengths below original / high are left alone
  std::int64_t original_max_position = 0;  // llama3, yarn: the context length before scaling
  double beta_fast = 32.0;                 // yarn: what turns more often than this within the old context is left alone
  double beta_slow = 1.0;                  // yarn: what turns less often than this is scaled wholly
  bool truncate = true;                    // yarn: the ramp between begins and ends at whole numbers
  double proportion = 1.0;                 // proportional: this part of the pairs turns, the rest stands still
  double attention_factor = 0.0;           // yarn: multiplies cos and sin; 0: 0.1·ln factor + 1

  bool operator==(const RopeConfig&) const = default;
};

/// What a decoder layer's queries see: all before them, or the keys of a window.
enum class LayerKind : std::uint8_t { full, sliding };

/// What `family` may say: one pair of files each in layers/decoders.
/// The last five are MaxText's and compute with its numerics.
inline constexpr std::array model_families = {"llama", "mistral", "gemma",   "gemma2", "gemma3", "qwen2",  "qwen3",
                                              "olmo3", "gpt2",    "default", "llama2", "gpt3",   "simple", "simple_mlp"};

/// What a model is, resolved: presets, Hugging Face's config.json and model.* keys all end here. Every size is given
/// (no zero that stands for "derive it"). A family reads the members that its blocks have.
struct ModelConfig {
  std::string family = "llama";
  std::string numerics = "hf";  // as transformers computes it; see docs/numerics.md
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;        // D
  std::int64_t intermediate_size = 0;  // width of the gated MLP
  std::int64_t layers = 0;
  std::int64_t heads = 0;     // query heads
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;  // even
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  double rope_local_theta = 0.0;                // base of the rotation of sliding layers, which is not scaled; 0: as the others
  std::int64_t sliding_window = 0;              // keys that a query of a sliding layer sees, its own the last
  std::vector<LayerKind> layer_kinds;           // one a layer; empty: all full
  double query_pre_attn_scalar = 0.0;           // scores are divided by its root; 0: by that of head_dim
  double attn_logit_softcapping = 0.0;          // scores s become cap·tanh(s / cap); 0: they stay
  double final_logit_softcapping = 0.0;         // the same of logits
  std::int64_t max_position_embeddings = 2048;  // recorded and exported; bounds nothing by itself
  bool tie_word_embeddings = false;             // the output head uses the embedding table
  double initializer_range = 0.02;              // standard deviation of the initial weights

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

}  // namespace millrace::layers
