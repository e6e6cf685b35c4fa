#pragma once

#include <filesystem>
#include <memory>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Whether the folder has a tokenizer in GPT-2's older layout: vocab.json and merges.txt.
[[nodiscard]] bool has_vocabulary_and_merges(const std::filesystem::path& folder);

/// Reads such a tokenizer: byte-level pairs with GPT-2's split pattern, and <|endoftext|> as the end of a document if the vocabulary has
/// it. Other classes (Qwen2Tokenizer, RobertaTokenizer) have the same two files with other patterns and tokens, so tokenizer_config.json,
/// or without it config.json, must not name one. Errors: Error(data).
[[nodiscard]] std::unique_ptr<Tokenizer> read_vocabulary_and_merges(const std::filesystem::path& folder);

}  // namespace millrace::runtime
