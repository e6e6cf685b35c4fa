#pragma once

#include <string>
#include <string_view>

#include "layers/models/model_family.hpp"

namespace millrace::layers {

/// Differences between MaxText's blocks that no key expresses.
struct MaxTextBlocks {
  bool attention = true;         // has attention and a gated MLP
  bool rotary = true;            // queries and keys are rotated
  bool bias = false;             // on all projections
  bool scale_in_weights = true;  // 1/√head_dim is part of the query kernel; else queries are divided when they are used
  bool split_axis = false;       // a fused kernel is stored [D, 3, N, h]; else [D, 3 N, h]
  bool layer_norm = false;       // norms are LayerNorms whose scale is stored minus 1; else RMSNorms
  bool equal_heads = false;      // needs as many kv_heads as heads, each with values of its own
  NormPlacement norms = NormPlacement::before;
};

/// The parts of one of MaxText's decoder layers, under its parameter paths (decoder.layers_N.…) and with its kernels, which have their
/// inputs first and keep the axes of heads. A family combines them.
class MaxTextLayer {
 public:
  MaxTextLayer(runtime::ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, int index);

  /// The norm with the parameters `<layer>.<name>.scale` [D] and, for a LayerNorm, `.bias`.
  [[nodiscard]] runtime::ValueId norm(runtime::ValueId x, const std::string& name) const;
  [[nodiscard]] runtime::ValueId attention(runtime::ValueId x) const;
  [[nodiscard]] runtime::ValueId mlp(runtime::ValueId x) const;
  /// x · W with the bare parameter `<layer>.<name>` [inputs, outputs].
  [[nodiscard]] runtime::ValueId product(runtime::ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const;
  [[nodiscard]] runtime::ValueId add(runtime::ValueId x, runtime::ValueId y, std::string_view name) const;
  /// x with dropout, if the model has it.
  [[nodiscard]] runtime::ValueId dropout(runtime::ValueId x, std::string_view name) const;

 private:
  struct Kernel;
  [[nodiscard]] runtime::ValueId dense(runtime::ValueId x, const Kernel& kernel) const;

  runtime::ProgramBuilder& builder_;
  const MaxTextBlocks& blocks_;
  const ModelSpec& model_;
  const LayerSpec& spec_;
  std::string module_;
};

/// MaxText's generic decoder without its layers: token table, positions, final norm, head, and the keys of its config.json.
class MaxTextFamily : public ModelFamily {
 public:
  /// `keys` are the keys of model.* that this block reads in addition to those that all of MaxText's blocks read.
  MaxTextFamily(std::string_view name, MaxTextBlocks blocks, std::initializer_list<std::string_view> keys = {});

  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override;
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override;
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits,
                                      double z_loss) const override;
  /// The distributions of MaxText's initialisers: kernels scaled by fan-in, tables with a deviation of 1.
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override;

  [[nodiscard]] bool recognises(runtime::JsonReader& reader) const override;
  void read_config(runtime::JsonReader& reader, ConfigFile& file) const override;
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile& file, std::string_view dtype) const override;

 protected:
  [[nodiscard]] MaxTextLayer begin_layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, runtime::ValueId x) const;

 private:
  FamilyTraits traits_;
  MaxTextBlocks blocks_;
};

}  // namespace millrace::layers
