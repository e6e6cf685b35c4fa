#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/family_traits.hpp"
#include "layers/formats/model_weights.hpp"
#include "layers/model_config.hpp"
#include "layers/parameter.hpp"
#include "runtime/io/file_dtype.hpp"
#include "runtime/io/tensor_folder.hpp"

namespace millrace::layers {

/// A folder of transformers or MaxText as a model's weights, under their own names. Nothing is folded or scaled on the way; parameters
/// whose stored form is not their shape in programs are reshaped, transposed or stacked of their parts. Names that lack the family's
/// optional prefix (the upload of GPT-2 of 2019) are read under it. Thread: const functions from any number of threads.
class FolderWeights final : public ModelWeights {
 public:
  /// `folder` has model.safetensors, or the files of model.safetensors.index.json. All names and shapes are checked against the whole
  /// model, whichever part is read later: Error(model) listing what is missing, unexpected or misshapen. Left alone: rotary inverse
  /// frequencies that old checkpoints carry, and a tied model's second copy of its table.
  FolderWeights(const std::string& folder, const ModelConfig& config);
  /// The same for a list of parameters.
  FolderWeights(const std::string& folder, const std::vector<ParameterSpec>& specs, const FamilyTraits& family, bool tied);

  void read(const ParameterSpec& spec, std::span<float> destination) const override;
  [[nodiscard]] kernels::DType dtype() const override;

 private:
  [[nodiscard]] std::string file_name(const std::string& tensor) const;

  runtime::TensorSource source_;
  std::string absent_prefix_;  // of our names
};

/// The elements of a parameter while it is exported, whole; called once per tensor of the file, from the calling thread.
using ParameterReader = std::function<std::span<const float>(const ParameterSpec& spec)>;

/// Writes the parameters as model.safetensors (sharded with an index above `max_shard_bytes`) in their stored forms. `dtype`: f32, or bf16
/// (rounded to nearest even). Throws Error(storage) naming file and operation.
void write_weights(const std::string& folder, const std::vector<ParameterSpec>& specs, kernels::DType dtype, const ParameterReader& reader,
                   std::uint64_t max_shard_bytes = 5'000'000'000);

/// Writes config.json and model.safetensors (sharded with an index above `max_shard_bytes`) that transformers loads, or for MaxText's
/// numerics that hold its keys and its parameters in its shapes. `dtype`: f32, or bf16 (rounded to nearest even). Import of an f32 export
/// gives the same bits. Throws Error(storage) naming file and operation.
void export_model_folder(const std::string& folder, const ConfigFile& config, kernels::DType dtype, const ParameterReader& reader,
                         std::uint64_t max_shard_bytes = 5'000'000'000);

}  // namespace millrace::layers
