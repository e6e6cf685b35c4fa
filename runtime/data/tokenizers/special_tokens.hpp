#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"

namespace millrace::runtime {

/// The special tokens of a tokenizer: those of its own file, and those that tokenizer_config.json (added_tokens_decoder) or
/// added_tokens.json beside it give to ids of the vocabulary. Errors: Error(data) for files that cannot be read.
[[nodiscard]] std::vector<Tokenizer::SpecialToken> special_tokens_of(const Tokenizer& tokenizer, const TokenizerFiles& files);

/// Encodes a text in which the texts of special tokens stand for these tokens, the longest where several begin. As in transformers, that
/// holds for what a user wrote too. Appends to `ids` and returns the number of special tokens.
std::size_t encode_with_special(const Tokenizer& tokenizer, const std::vector<Tokenizer::SpecialToken>& special, std::string_view text,
                                std::vector<std::int32_t>& ids);

}  // namespace millrace::runtime
