#include "layers/model_folder.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/config_file.hpp"
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

/// rows × columns of `from`, as columns × rows.
void transpose(std::span<const float> from, std::int64_t rows, std::int64_t columns, std::span<float> to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      to[static_cast<std::size_t>(column * rows + row)] = from[static_cast<std::size_t>(row * columns + column)];
}

/// Elements of a tensor in pieces that fit a cache, in the file's type.
void write_elements(std::span<const float> elements, runtime::FileDType dtype, const runtime::ByteSink& sink) {
  constexpr std::size_t piece = 1 << 16;
  std::vector<std::byte> bytes;
  for (std::size_t begin = 0; begin < elements.size(); begin += piece) {
    const auto part = elements.subspan(begin, std::min(piece, elements.size() - begin));
    bytes.resize(part.size() * runtime::bits_of(dtype) / 8);
    runtime::convert(part, dtype, bytes);
    sink(bytes);
  }
}

}  // namespace

FolderWeights::FolderWeights(const std::string& folder, const ModelConfig& config) : source_(folder, ExitCode::model) {
  std::vector<runtime::ExpectedTensor> expected;
  for (const ParameterSpec& spec : model_parameters(config)) expected.push_back({spec.name, spec.stored.shape.sizes()});
  source_.check(expected, ignored_names(source_, config));
}

void FolderWeights::read(const ParameterSpec& spec, std::span<float> destination) const {
  if (!spec.stored.transposed) return source_.read(spec.name, destination);
  std::vector<float> stored(destination.size());
  source_.read(spec.name, stored);
  transpose(stored, spec.stored.shape[0], spec.stored.shape[1], destination);
}

void export_model_folder(const std::string& folder, const ModelConfig& config, kernels::DType dtype, const ParameterReader& reader,
                         std::uint64_t most_shard_bytes) {
  const runtime::FileDType file_dtype = runtime::file_dtype(dtype);
  std::map<std::string, ParameterSpec, std::less<>> specs;
  std::vector<runtime::FileTensor> tensors;
  for (const ParameterSpec& spec : model_parameters(config)) {
    tensors.push_back({spec.name, file_dtype, spec.stored.shape.sizes(), 0, 0});
    specs.emplace(spec.name, spec);
  }
  const auto produce = [&](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
    const ParameterSpec& spec = specs.find(tensor.name)->second;
    const auto elements = reader(spec);
    if (!spec.stored.transposed) return write_elements(elements, file_dtype, sink);
    std::vector<float> stored(elements.size());
    transpose(elements, spec.shape[0], spec.shape[1], stored);
    write_elements(stored, file_dtype, sink);
  };
  runtime::write_tensor_folder(folder, std::move(tensors), {{"format", "pt"}}, produce, most_shard_bytes);
  runtime::write_text_file(folder + "/config.json", config_file_text(config, dtype == kernels::DType::bf16 ? "bfloat16" : "float32"));
}

}  // namespace millrace::layers
