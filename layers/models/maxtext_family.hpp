#pragma once

#include <string>
#include <string_view>

#include "layers/formats/maxtext/keys.hpp"
#include "layers/models/maxtext_layer.hpp"
#include "layers/models/model_family.hpp"

namespace millrace::layers {

/// MaxText's decoder: token table, positions, layers, final norm, head, and the keys of its config.json. A block in the form of
/// MaxTextLayer::output consists of data; others override layer().
class MaxTextFamily : public ModelFamily, private MtpFamily {
 public:
  /// `keys` are the keys of model.* that this block reads in addition to those that follow from `blocks` and `file`. What `file` has in
  /// common with `blocks` is taken from there.
  MaxTextFamily(std::string_view name, MaxTextBlocks blocks, MaxTextFile file = {}, std::initializer_list<std::string_view> keys = {});

  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override;
  [[nodiscard]] std::vector<StreamSpec> streams(const ModelSpec& model, int index) const override;
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override;
  /// Calls layer_part(); a block of another form overrides that.
  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const final;
  [[nodiscard]] Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& in) const override;
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& x,
                                      bool want_logits) const override;
  /// Under MaxText's names: mtp_block.mtp_layer_N with mtp_N_embedding_norm, mtp_N_hidden_state_norm, mtp_N_projection [2 D, D] and the
  /// layer mtp_N_transformer_layer; the final norm and the head are the model's.
  [[nodiscard]] const MtpFamily& multi_token_prediction() const override { return *this; }
  /// The distributions of MaxText's initialisers: kernels scaled by fan-in, tables with a deviation of 1.
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override;

  [[nodiscard]] bool recognises(runtime::JsonReader& reader) const override;
  void read_config(runtime::JsonReader& reader, ConfigFile& file) const override;
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile& file, std::string_view dtype) const override;

 protected:
  [[nodiscard]] MaxTextLayer begin_layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, runtime::ValueId x) const;

 private:
  [[nodiscard]] runtime::ValueId mtp_embedding(runtime::ProgramBuilder& builder, const ModelSpec& model, int module) const override;
  [[nodiscard]] runtime::ValueId mtp_input(runtime::ProgramBuilder& builder, const ModelSpec& model, int module, runtime::ValueId embedding,
                                           runtime::ValueId hidden) const override;
  [[nodiscard]] runtime::ValueId mtp_layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                           runtime::ValueId x) const override;
  [[nodiscard]] HeadOperands mtp_head(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                      runtime::ValueId x) const override;
  /// The embedding of the model's tokens, or of those that a module of multi-token prediction sees (from 1).
  [[nodiscard]] runtime::ValueId embedded(runtime::ProgramBuilder& builder, const ModelSpec& model, int module = 0) const;
  [[nodiscard]] AttentionSpec attention(const ModelConfig& config, LayerKind kind, bool turns) const;
  [[nodiscard]] DeltaNetSpec delta_net(const ModelConfig& config) const;
  [[nodiscard]] LatentAttentionSpec latent(const ModelConfig& config) const;

  FamilyTraits traits_;
  MaxTextBlocks blocks_;
  MaxTextFile file_;
};

}  // namespace millrace::layers
