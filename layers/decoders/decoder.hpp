#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/shape.hpp"
#include "layers/model_config.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// How a parameter begins: truncated_normal is cut at two deviations.
enum class InitialKind : std::uint8_t { normal, truncated_normal, zeros, ones };

struct Initial {
  InitialKind kind = InitialKind::normal;
  double deviation = 0;  // of a normal distribution (before it is cut); 0: the model's initializer_range

  bool operator==(const Initial&) const = default;
};

/// One family of models: what its embedding, its decoder layers and its head compute. A family is one pair of files in this folder and one
/// line in registry.cpp. Stateless; lives as long as the process. Layers append to the builder and declare parameters under the
/// checkpoint's names.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// `model_type` of config.json, `model.family` of a run description.
  [[nodiscard]] virtual std::string_view family() const = 0;
  /// What `model.numerics` has to be.
  [[nodiscard]] virtual std::string_view numerics() const { return "hf"; }
  /// Throws Error(model) naming the member that does not fit the family.
  virtual void validate(const ModelConfig& config) const = 0;
  /// tokens → the residual stream [T, hidden_size].
  [[nodiscard]] virtual runtime::ValueId embed(runtime::ProgramBuilder& builder, const ModelConfig& config) const = 0;
  /// Decoder layer `index` on the residual stream.
  [[nodiscard]] virtual runtime::ValueId layer(runtime::ProgramBuilder& builder, const ModelConfig& config, int index,
                                               runtime::ValueId x) const = 0;
  /// Final norm and output head: the loss (f64 [2]), or where `want_logits` fp32 logits [T, vocab_size].
  [[nodiscard]] virtual runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelConfig& config, runtime::ValueId x,
                                              bool want_logits, double z_loss) const = 0;
  /// Matrices normal, biases zeros, other vectors ones (norm scales), unless a family says otherwise.
  [[nodiscard]] virtual Initial initial(const ModelConfig& config, const std::string& name, const kernels::Shape& shape) const;
};

/// The family that `config.family` names. Throws Error(model) listing the known ones.
[[nodiscard]] const Decoder& decoder_of(const ModelConfig& config);
[[nodiscard]] std::vector<std::string> known_families();

}  // namespace millrace::layers
