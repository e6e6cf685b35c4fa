#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Reads the text of a tokenizer.json, the format of Hugging Face's library `tokenizers` (0.13 to 0.23). Supported are byte-pair
/// models
///
///   over bytes        pre_tokenizer ByteLevel, alone or after Split (Isolated) and Digits in a Sequence; normalizer null or NFC
///   over characters   byte_fallback, with spaces written as U+2581 by the normalizer (Prepend, Replace) or the pre_tokenizer Metaspace:
///                     the form that SentencePiece's byte-pair models are converted to
///
/// with merges in both spellings, ignore_merges, added tokens, and TemplateProcessing, of which only the tokens that begin and
/// end a document are used. Settings of truncation and padding concern batches and are ignored.
///
/// Errors: Error(data) with `where`, the place in the file, what was found and what was expected. Unknown settings are refused.
[[nodiscard]] std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace millrace::runtime
