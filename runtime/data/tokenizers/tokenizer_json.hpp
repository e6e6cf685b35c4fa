#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Reads the text of a tokenizer.json, the file of Hugging Face's library `tokenizers` (0.13 to 0.23). Taken are byte-pair models
///
///   over bytes        pre_tokenizer ByteLevel, alone or behind Split (Isolated) and Digits in a Sequence; normalizer null or NFC
///   over characters   byte_fallback, with spaces written as U+2581 by the normalizer (Prepend, Replace) or the pre_tokenizer Metaspace:
///                     what SentencePiece's byte-pair models become
///
/// with merges in both spellings, ignore_merges, added tokens, and TemplateProcessing, which is only asked what a document begins and ends
/// with. Settings of truncation and padding are about batches and not used.
///
/// Errors: Error(data) naming `where`, the place in the file, what was found and wanted. Whatever is not known is refused.
[[nodiscard]] std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace millrace::runtime
