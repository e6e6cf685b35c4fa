#pragma once

#include <string>
#include <string_view>

#include "kernels/base/activation.hpp"
#include "layers/attention/dot_product.hpp"
#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// What a family's attention has beyond what the config says.
struct AttentionStyle {
  bool bias = false;  // on queries, keys and values
  QueryKeyNorm norm = QueryKeyNorm::none;
};

/// The parts of one decoder layer, with its config and under the names of transformers' `model.layers.N`. A family puts them together.
class LayerBuilder {
 public:
  /// `norms`: of every norm of the layer.
  LayerBuilder(runtime::ProgramBuilder& builder, const ModelConfig& config, int index, runtime::RmsNormForm norms);

  /// x / √(mean(x²) + ε) · weight; weight `<layer>.<name>.weight` [hidden_size].
  [[nodiscard]] runtime::ValueId norm(runtime::ValueId x, const std::string& name) const;
  /// Of the layer's kind: `sliding` layers have the window and the local rotation.
  [[nodiscard]] runtime::ValueId attention(runtime::ValueId x, AttentionStyle style = {}) const;
  [[nodiscard]] runtime::ValueId mlp(runtime::ValueId x, kernels::Activation activation) const;
  /// x + y, x being the residual stream. Called for attention, then for the MLP.
  [[nodiscard]] runtime::ValueId add(runtime::ValueId x, runtime::ValueId y, std::string_view branch) const;

 private:
  runtime::ProgramBuilder& builder_;
  const ModelConfig& config_;
  runtime::RmsNormForm norms_;
  LayerKind kind_;
  std::string module_;
};

/// Families whose checkpoints have model.embed_tokens, model.layers.N, model.norm and lm_head (or the tied table): all but the layer.
class StandardDecoder : public Decoder {
 public:
  void validate(const ModelConfig& config) const override;
  [[nodiscard]] runtime::ValueId embed(runtime::ProgramBuilder& builder, const ModelConfig& config) const override;
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelConfig& config, runtime::ValueId x, bool want_logits,
                                      double z_loss) const override;

 protected:
  [[nodiscard]] LayerBuilder begin_layer(runtime::ProgramBuilder& builder, const ModelConfig& config, int index, runtime::ValueId x) const;
  /// Of every norm of the family. Default: the weights as they are, and the normal form rounded before them.
  [[nodiscard]] virtual runtime::RmsNormForm norm_form(const ModelConfig& config) const;
  /// What the embedding is multiplied by. Default: 1.
  [[nodiscard]] virtual double embedding_scale(const ModelConfig& config) const;
};

}  // namespace millrace::layers
