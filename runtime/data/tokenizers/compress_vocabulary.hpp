#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/data/token_compression.hpp"

namespace millrace::runtime {

/// Compresses the vocabulary of the tokenizer at `path` (open_tokenizer()). Tokens whose keys are equal have one compressed id, and ids are
/// given out in the order of tokens. The key of a token that is no text is its piece, as the tokenizer's file spells it; that of any other
/// one is its text as compression_key() gives it. The padding token is the pad_token of tokenizer_config.json or special_tokens_map.json
/// beside the tokenizer's file, else Tokenizer::padding(). Errors: Error(data), naming the file, without a padding token, and those of
/// open_tokenizer(). (MaxText, layers/engram.py, CompressedTokenizer.)
[[nodiscard]] TokenCompression compress_vocabulary(const std::filesystem::path& path);

/// The text without marks, in lower case and compatibility forms, with runs of spaces, tabs and line ends as one space and none at its
/// ends; a single space stays one. The text itself if nothing is left.
[[nodiscard]] std::string compression_key(std::string_view text);

}  // namespace millrace::runtime
