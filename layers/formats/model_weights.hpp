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
  /// bf16 where every tensor is stored so, else f32, in which nothing of them is lost.
  [[nodiscard]] virtual kernels::DType dtype() const = 0;
};

/// Those of a folder (model_folder.hpp) or of a file of llm.c (llmc_file.hpp). Names and shapes are checked against the whole model,
/// whichever part is read later. Errors: Error(model) naming file, tensor, found and wanted.
[[nodiscard]] std::unique_ptr<const ModelWeights> open_weights(const std::string& path, const ModelConfig& config);

}  // namespace millrace::layers
