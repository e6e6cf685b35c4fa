#pragma once

#include <cstdint>
#include <string>

namespace millrace::layers {

/// How rotary frequencies are scaled for contexts longer than those trained on.
enum class RopeKind : std::uint8_t { none, linear, llama3 };

[[nodiscard]] constexpr const char* to_string(RopeKind kind) noexcept {
  switch (kind) {
    case RopeKind::none:
      return "default";
    case RopeKind::linear:
      return "linear";
    case RopeKind::llama3:
      return "llama3";
  }
  return "?";
}

/// Rotary position embedding, halves convention. theta is the base; the rest belongs to the kinds that use it.
struct RopeConfig {
  RopeKind kind = RopeKind::none;
  double theta = 10000.0;
  double factor = 1.0;                     // linear, llama3: positions are divided by this
  double low_freq_factor = 1.0;            // llama3: wavelengths above original / low are scaled wholly
  double high_freq_factor = 4.0;           // llama3: wavelengths below original / high are left alone
  std::int64_t original_max_position = 0;  // llama3: the context length before scaling

  bool operator==(const RopeConfig&) const = default;
};

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
  std::int64_t max_position_embeddings = 2048;  // recorded and exported; bounds nothing by itself
  bool tie_word_embeddings = false;             // the output head uses the embedding table
  double initializer_range = 0.02;              // standard deviation of the initial weights

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace millrace::layers
