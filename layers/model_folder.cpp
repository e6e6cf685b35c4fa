#include "layers/model_folder.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/stored_elements.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::layers {
namespace {

/// Names that a checkpoint may carry without being parameters of the model.
std::vector<std::string> ignored_names(const runtime::TensorSource& source, const ModelConfig& config) {
  std::vector<std::string> names;
  if (config.tie_word_embeddings) names.emplace_back("lm_head.weight");
  for (const std::string& name : source.names()) {
    if (name.ends_with(".rotary_emb.inv_freq")) names.push_back(name);
    // GPT-2's causal masks, which old checkpoints keep as buffers; attn.c_attn.bias is a weight.
    if (config.family == "gpt2" && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"))) names.push_back(name);
  }
  return names;
}

/// The original upload of GPT-2 is of the model without its head, whose names have no "transformer.".
std::string prefix_missing_in(const runtime::TensorSource& source, const ModelConfig& config) {
  const bool bare = config.family == "gpt2" && !source.has("transformer.wte.weight") && source.has("wte.weight");
  return bare ? "transformer." : "";
}

}  // namespace

FolderWeights::FolderWeights(const std::string& folder, const ModelConfig& config) : source_(folder, ExitCode::model) {
  absent_prefix_ = prefix_missing_in(source_, config);
  std::vector<runtime::ExpectedTensor> expected;
  for (const ParameterSpec& spec : model_parameters(config)) expected.push_back({file_name(spec), spec.stored.shape.sizes()});
  source_.check(expected, ignored_names(source_, config));
}

std::string FolderWeights::file_name(const ParameterSpec& spec) const {
  return spec.name.starts_with(absent_prefix_) ? spec.name.substr(absent_prefix_.size()) : spec.name;
}

void FolderWeights::read(const ParameterSpec& spec, std::span<float> destination) const {
  source_.read(file_name(spec), destination);
  if (!spec.stored.transposed) return;
  std::ranges::copy(transposed(destination, spec.stored.shape[0], spec.stored.shape[1]), destination.begin());
}

kernels::DType FolderWeights::dtype() const {
  const bool all =
      std::ranges::all_of(source_.names(), [&](const std::string& name) { return source_.at(name).dtype == runtime::FileDType::bf16; });
  return all ? kernels::DType::bf16 : kernels::DType::f32;
}

void export_model_folder(const std::string& folder, const ConfigFile& config, kernels::DType dtype, const ParameterReader& reader,
                         std::uint64_t most_shard_bytes) {
  // First, since it may be that the file cannot say what the model is.
  const std::string text = config_file_text(config, dtype == kernels::DType::bf16 ? "bfloat16" : "float32");
  const runtime::FileDType file_dtype = runtime::file_dtype(dtype);
  std::map<std::string, ParameterSpec, std::less<>> specs;
  std::vector<runtime::FileTensor> tensors;
  for (const ParameterSpec& spec : model_parameters(config.model)) {
    tensors.push_back({spec.name, file_dtype, spec.stored.shape.sizes(), 0, 0});
    specs.emplace(spec.name, spec);
  }
  const auto produce = [&](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
    const ParameterSpec& spec = specs.find(tensor.name)->second;
    const auto elements = reader(spec);
    if (!spec.stored.transposed) return write_elements(elements, file_dtype, sink);
    write_elements(transposed(elements, spec.shape[0], spec.shape[1]), file_dtype, sink);
  };
  runtime::write_tensor_folder(folder, std::move(tensors), {{"format", "pt"}}, produce, most_shard_bytes);
  runtime::write_text_file(folder + "/config.json", text);
}

}  // namespace millrace::layers
