#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/shape.hpp"
#include "layers/family_traits.hpp"
#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"
#include "layers/models/mtp.hpp"
#include "layers/parameter.hpp"
#include "layers/streams.hpp"
#include "runtime/io/json_reader.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// One family of models: the spec that its keys resolve to, the programs of embedding, decoder layers and head, and its config.json. A
/// family is a folder here and one line in families.inc. Stateless; lives as long as the process. Layers append to the builder and
/// declare parameters under the checkpoint's names. They depend on the spec, never on the family's name.
class ModelFamily {
 public:
  virtual ~ModelFamily() = default;
  [[nodiscard]] virtual const FamilyTraits& traits() const = 0;

  // -- the model --------------------------------------------------------------------------------------------------------------------------
  /// Returns the parts of each layer. Throws Error(model) naming the member of the config that does not fit the family.
  [[nodiscard]] virtual ModelSpec resolve(const ModelConfig& config) const = 0;
  /// The streams that layer `index` receives; with the number of layers, those that the head receives. A stream exists where it is listed:
  /// it begins and ends between two layers. Default: the residual stream, "hidden" [T, width] in the compute dtype, everywhere.
  [[nodiscard]] virtual std::vector<StreamSpec> streams(const ModelSpec& model, int index) const;
  /// tokens → the streams of layer 0.
  [[nodiscard]] virtual Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const = 0;
  /// Decoder layer `index`: its streams → those of layer `index` + 1.
  [[nodiscard]] virtual Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const = 0;
  /// A part of decoder layer `index`, whose halves may be on two stages: the stream before it → the stream behind it. Only for layers that
  /// have the residual stream alone before and behind them. Default: layer() for the whole, else throws Error(model).
  [[nodiscard]] virtual Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                           const Streams& in) const;
  /// Final norm and output head: the loss (f64 [2]), or if `want_logits` fp32 logits [T, vocab_size].
  [[nodiscard]] virtual runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& in,
                                              bool want_logits) const = 0;
  /// What modules of multi-token prediction take from this family. Default: throws Error(model), the family has none.
  [[nodiscard]] virtual const MtpFamily& multi_token_prediction() const;
  /// Default: matrices normal, biases zeros, other vectors ones (norm scales).
  [[nodiscard]] virtual Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const;

  // -- its config.json --------------------------------------------------------------------------------------------------------------------
  /// Whether a config.json belongs to this family: by model_type, or if that is missing by the first entry of architectures; or by
  /// MaxText's decoder_block.
  [[nodiscard]] virtual bool recognises(runtime::JsonReader& reader) const = 0;
  /// Reads the file. Error(model) naming the key, its value and what is supported.
  virtual void read_config(runtime::JsonReader& reader, ConfigFile& file) const = 0;
  /// Writes the file. `dtype` is the dtype of the exported tensors ("float32", "bfloat16").
  [[nodiscard]] virtual runtime::OrderedJson config_json(const ConfigFile& file, std::string_view dtype) const = 0;

 protected:
  /// Throws Error(model) for a half of a layer, in families whose layers are not divided.
  void expect_whole(LayerPart part) const;
};

/// All families, in the order of families.inc; added ones follow.
[[nodiscard]] const std::vector<const ModelFamily*>& model_families();

/// Appends a family that is not in families.inc, of a program or test that brings its own. The family must live as long as the process.
/// Not thread-safe: call it before anything reads the list. Its traits' keys are not keys of run files.
void add_model_family(const ModelFamily& family);

/// The family that `config.family` and `config.numerics` name together. Throws Error(model) listing the known names, or naming the
/// numerics that a known name has.
[[nodiscard]] const ModelFamily& family_of(const ModelConfig& config);

}  // namespace millrace::layers
