#pragma once

#include <string>
#include <string_view>

#include "layers/decoders/decoder.hpp"

namespace millrace::layers {

/// What tells the attentions of MaxText's blocks apart.
struct MaxTextAttention {
  bool bias = false;             // on all four projections
  bool rotary = true;            // positions turn queries and keys
  bool scale_in_weights = true;  // 1/√head_dim is part of the query kernel; else queries are divided when they are used
  bool split_axis = false;       // a fused kernel is stored [D, 3, N, h]; else [D, 3 N, h]
};

/// The parts of one of MaxText's decoder layers, under its parameter paths (decoder.layers_N.…) and with its kernels, which have their
/// inputs first and keep the axes of heads. A family puts them together.
class MaxTextLayer {
 public:
  MaxTextLayer(runtime::ProgramBuilder& builder, const ModelConfig& config, int index);

  /// RMSNorm with `<layer>.<name>.scale` [D].
  [[nodiscard]] runtime::ValueId norm(runtime::ValueId x, const std::string& name) const;
  /// LayerNorm whose scale is stored less 1: (x − mean) / √(variance + ε) · (scale + 1) + bias.
  [[nodiscard]] runtime::ValueId layer_norm(runtime::ValueId x, const std::string& name) const;
  [[nodiscard]] runtime::ValueId attention(runtime::ValueId x, const MaxTextAttention& style = {}) const;
  [[nodiscard]] runtime::ValueId mlp(runtime::ValueId x, bool bias = false) const;
  /// x · W with the bare parameter `<layer>.<name>` [inputs, outputs].
  [[nodiscard]] runtime::ValueId product(runtime::ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const;
  [[nodiscard]] runtime::ValueId add(runtime::ValueId x, runtime::ValueId y, std::string_view name) const;
  /// x with features dropped where the config asks for it.
  [[nodiscard]] runtime::ValueId dropout(runtime::ValueId x, std::string_view name) const;

 private:
  struct Kernel;
  [[nodiscard]] runtime::ValueId dense(runtime::ValueId x, const Kernel& kernel) const;
  [[nodiscard]] runtime::ValueId rotate(runtime::ValueId x, const std::string& name, const MaxTextAttention& style) const;

  runtime::ProgramBuilder& builder_;
  const ModelConfig& config_;
  std::string module_;
};

/// MaxText's generic decoder: token table, positions, final norm and head; all but the layer.
class MaxTextDecoder : public Decoder {
 public:
  [[nodiscard]] std::string_view numerics() const override { return "maxtext"; }
  void validate(const ModelConfig& config) const override;
  [[nodiscard]] runtime::ValueId embed(runtime::ProgramBuilder& builder, const ModelConfig& config) const override;
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelConfig& config, runtime::ValueId x, bool want_logits,
                                      double z_loss) const override;
  /// The distributions of MaxText's initialisers: by fan-in, tables with deviation 1.
  [[nodiscard]] Initial initial(const ModelConfig& config, const std::string& name, const kernels::Shape& shape) const override;

 protected:
  [[nodiscard]] MaxTextLayer begin_layer(runtime::ProgramBuilder& builder, const ModelConfig& config, int index, runtime::ValueId x) const;

 private:
  /// Whether query kernels carry 1/√head_dim, which then stands in their initial values. Default: yes.
  [[nodiscard]] virtual bool folds_query_scale() const { return true; }
  /// decoder.decoder_norm. Default: RMSNorm.
  [[nodiscard]] virtual runtime::ValueId final_norm(runtime::ProgramBuilder& builder, const ModelConfig& config, runtime::ValueId x) const;
};

/// LayerNorm under `module`.scale and .bias, as MaxTextLayer::layer_norm.
[[nodiscard]] runtime::ValueId maxtext_layer_norm(runtime::ProgramBuilder& builder, const ModelConfig& config, runtime::ValueId x,
                                                  const std::string& module, std::string_view name);

}  // namespace millrace::layers
