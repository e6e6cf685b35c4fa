#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/base/dtype.hpp"
#include "layers/model_config.hpp"
#include "layers/parameter.hpp"

namespace millrace::layers {

/// A model's weights as another program left them on disk. Thread: const functions from any number of threads.
class ModelWeights {
 public:
  virtual ~ModelWeights() = default;
  /// One tensor as fp32: `destination` has spec.shape's elements, in the order of programs.
  virtual void read(const ParameterSpec& spec, std::span<float> destination) const = 0;
  /// bf16 if every tensor is stored so, else f32, which loses nothing.
  [[nodiscard]] virtual kernels::DType dtype() const = 0;
};

/// The weights in a folder (model_folder.hpp) or a file of llm.c (llmc_file.hpp). Names and shapes are checked against the whole model,
/// even if only a part is read later. Errors: Error(model) naming file, tensor, and what was found and expected.
[[nodiscard]] std::unique_ptr<const ModelWeights> open_weights(const std::string& path, const ModelConfig& config);

}  // namespace millrace::layers
