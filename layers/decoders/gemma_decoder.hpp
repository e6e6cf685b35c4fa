#pragma once

#include <cmath>

#include "layers/decoders/layer_builder.hpp"

namespace millrace::layers {

/// What the Gemmas share: the embedding is multiplied by √hidden_size, and a norm's weight is stored as its distance from 1.
class GemmaDecoder : public StandardDecoder {
 public:
  [[nodiscard]] Initial initial(const ModelConfig&, const std::string&, const kernels::Shape& shape) const override {
    return {shape.rank() >= 2 ? InitialKind::normal : InitialKind::zeros};
  }

 protected:
  [[nodiscard]] runtime::RmsNormForm norm_form(const ModelConfig& config) const override {
    return {.epsilon = static_cast<float>(config.rms_norm_eps), .offset = 1.0F, .round_first = false};
  }
  [[nodiscard]] double embedding_scale(const ModelConfig& config) const override {
    return std::sqrt(static_cast<double>(config.hidden_size));
  }
};

}  // namespace millrace::layers
