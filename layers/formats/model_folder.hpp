#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

/// The weights in a folder of transformers or MaxText, under the names of the folder. Values are not scaled or combined; parameters
/// whose stored form differs from their shape in programs are reshaped, transposed or stacked from parts. Of a weight of experts only what
/// its spec has is read: the tensors of these experts, or their rows of the tensor of all. Names that lack the family's
/// optional prefix (such as those of GPT-2's first release) are read as if they had it, and layers that MaxText has scanned from the tensor
/// of all layers. Thread: const functions from any number of threads.
class FolderWeights final : public ModelWeights {
 public:
  /// `folder` has model.safetensors, or the files of model.safetensors.index.json. All names and shapes are checked against the whole
  /// model, even if only a part is read later: Error(model) listing what is missing, unexpected or misshapen. Ignored are rotary inverse
  /// frequencies in old checkpoints, a tied model's second copy of its table, and layers beyond the model's where the family may have them.
  FolderWeights(const std::string& folder, const ModelConfig& config);
  /// The same for a list of parameters.
  FolderWeights(const std::string& folder, const std::vector<ParameterSpec>& specs, const FamilyTraits& family, bool tied);

  void read(const ParameterSpec& spec, std::span<float> destination) const override;
  [[nodiscard]] kernels::DType dtype() const override;

 private:
  [[nodiscard]] std::string file_name(const std::string& tensor) const;
  /// Notes the tensors of scanned layers, if the folder has these in place of the layers' own.
  void find_scanned(const std::vector<ParameterSpec>& specs);
  /// Reads rows [first, first + shape[0]) of one tensor of a parameter, along its first axis as files store it.
  void read_rows(const std::string& tensor, std::int64_t first, const kernels::Shape& shape, std::span<float> destination) const;
  /// Reads a tensor of a parameter in the order of programs.
  void read_tensor(const std::string& tensor, const runtime::StoredForm& stored, std::span<float> destination) const;

  runtime::TensorSource source_;
  std::vector<std::pair<std::string, std::string>> spellings_;  // prefixes of our names, and the files'
  std::string absent_prefix_;                                   // of our names
  std::map<std::string, std::size_t> scanned_;                  // tensors of all layers, with the number of their layers
  bool trained_in_bf16_ = true;                                 // all parameters that are trained are bf16 in the files
};

/// The elements of a parameter while it is exported, whole; called once per tensor of the file, from the calling thread.
using ParameterReader = std::function<std::span<const float>(const ParameterSpec& spec)>;

/// Writes the parameters as model.safetensors (sharded with an index above `max_shard_bytes`) in their stored forms. `dtype`: f32, or bf16
/// (rounded to nearest even), of all that is trained; the rest is f32. Throws Error(storage) naming file and operation.
void write_weights(const std::string& folder, const std::vector<ParameterSpec>& specs, kernels::DType dtype, const ParameterReader& reader,
                   std::uint64_t max_shard_bytes = 5'000'000'000);

/// Writes config.json and model.safetensors (sharded with an index above `max_shard_bytes`) that transformers loads, or for MaxText's
/// numerics that hold its keys and its parameters in its shapes. `dtype`: f32, or bf16 (rounded to nearest even). Import of an f32 export
/// gives the same bits. Throws Error(storage) naming file and operation.
void export_model_folder(const std::string& folder, const ConfigFile& config, kernels::DType dtype, const ParameterReader& reader,
                         std::uint64_t max_shard_bytes = 5'000'000'000);

}  // namespace millrace::layers
