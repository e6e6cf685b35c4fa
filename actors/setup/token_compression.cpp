#include "actors/setup/token_compression.hpp"

#include <span>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/compress_vocabulary.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

std::shared_ptr<const runtime::TokenCompression> open_compression(const layers::ModelConfig& model, const std::string& source) {
  constexpr const char* component = "actors.compression";
  const layers::EngramConfig& engram = model.engram;
  if (engram.layers.empty()) return nullptr;
  MILLRACE_CHECK(!source.empty(), ExitCode::config, component,
                 "data.token_compression is not given, and the model has n-gram memories (model.engram_layers): expected the model's "
                 "tokenizer, or a table file that `millrace data compress` made of it");
  auto compression = std::make_shared<runtime::TokenCompression>(source.ends_with(".safetensors") ? runtime::read_token_compression(source)
                                                                                                  : runtime::compress_vocabulary(source));
  MILLRACE_CHECK(compression->vocabulary == engram.compressed_vocab_size && compression->padding == engram.compressed_pad_id,
                 ExitCode::config, component,
                 "{} has {} compressed ids and the padding {}, expected model.engram_compressed_vocab_size = {} and "
                 "model.engram_compressed_pad_id = {}; is it this model's tokenizer?",
                 source, compression->vocabulary, compression->padding, engram.compressed_vocab_size, engram.compressed_pad_id);
  return compression;
}

std::string compression_source(const runtime::DataConfig& data, const std::string& model_from) {
  if (!data.token_compression.empty()) return data.token_compression;
  return data.text.empty() ? model_from : "byte";
}

std::string compression_hash(const runtime::TokenCompression& compression) {
  return runtime::hash_of(std::as_bytes(std::span(compression.ids))).hex();
}

}  // namespace millrace::actors
