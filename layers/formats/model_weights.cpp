#include "layers/formats/model_weights.hpp"

#include "layers/formats/llmc_file.hpp"
#include "layers/formats/model_folder.hpp"

namespace millrace::layers {

std::unique_ptr<const ModelWeights> open_weights(const std::string& path, const ModelConfig& config) {
  if (is_llmc_file(path)) return std::make_unique<LlmcWeights>(path, config);
  return std::make_unique<FolderWeights>(path, config);
}

}  // namespace millrace::layers
