#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::runtime {

/// A smaller vocabulary for n-gram memories (Engram): tokens that read alike, whatever their case, marks and surrounding spaces, have one
/// compressed id. It is made from a tokenizer (data/tokenizers/compress_vocabulary.hpp) or read from a table file, which is a safetensors
/// file with the tensor `lookup_table` i32 [V] and the metadata `compressed_vocab_size` and `compressed_pad_id`. Const functions from any
/// thread.
struct TokenCompression {
  std::vector<std::int32_t> ids;  // of each token, [V], each below `vocabulary`
  std::int64_t vocabulary = 0;    // V_c, the number of compressed ids
  std::int32_t padding = 0;       // the compressed id of the padding token

  /// compressed[t] = ids[tokens[t]], both [T]; a negative token stays as it is. Allocates nothing. Errors: Error(data) for a token that is
  /// V or more.
  void compress(std::span<const std::int32_t> tokens, std::span<std::int32_t> compressed) const;

  bool operator==(const TokenCompression&) const = default;
};

/// Reads a table file. Errors: Error(data) with the file, what was found and what was expected.
[[nodiscard]] TokenCompression read_token_compression(const std::string& path);

/// Writes a table file, atomically. Errors: those of write_safetensors().
void write_token_compression(const std::string& path, const TokenCompression& compression);

}  // namespace millrace::runtime
