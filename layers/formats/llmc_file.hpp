#pragma once

#include <string>

#include "layers/formats/model_folder.hpp"
#include "layers/formats/model_weights.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::layers {

/// llm.c's model file of a GPT-2 ("gpt2_124M.bin"): 256 little-endian int32, of which the first eight are the magic 20240326, a version
/// (3: fp32, 5: bf16), the longest sequence, vocabulary, layers, heads, channels and padded vocabulary; then the tensors, each for all
/// layers at once. Matrices have their outputs first; rows of the table beyond the vocabulary are padding. Properties that the file
/// does not contain are those of GPT-2: an MLP four times as wide, ε = 1e-5, a tied head.

/// Whether a regular file begins with the magic. False if it cannot be read.
[[nodiscard]] bool is_llmc_file(const std::string& path);

/// The model that the header describes. Errors: Error(model) naming file, field, and what was found and expected; also if the file's size
/// differs from that of the header's tensors.
[[nodiscard]] ModelConfig read_llmc_config(const std::string& path);

class LlmcWeights final : public ModelWeights {
 public:
  /// Error(model) also if `config` differs from the header in anything that tensors depend on.
  LlmcWeights(const std::string& path, const ModelConfig& config);
  void read(const ParameterSpec& spec, std::span<float> destination) const override;
  [[nodiscard]] kernels::DType dtype() const override { return dtype_; }

 private:
  runtime::File file_;
  ModelConfig model_;
  std::int64_t padded_ = 0;  // rows of the table in the file
  kernels::DType dtype_ = kernels::DType::f32;
};

/// Writes such a file, atomically, with the vocabulary padded to a multiple of 128 as llm.c's own are. Errors: Error(model) for a model
/// that the format cannot express; Error(storage) naming file and operation.
void write_llmc_file(const std::string& path, const ModelConfig& config, kernels::DType dtype, const ParameterReader& reader);

}  // namespace millrace::layers
