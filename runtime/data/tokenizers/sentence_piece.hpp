#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Reads a SentencePiece model (byte-pair or unigram) by libsentencepiece; simple byte-pair models are then encoded by our own
/// merging (see sentence_piece_model.hpp). Text is normalised as the model says, which may be lossy (runs of spaces,
/// compatibility forms). Bytes that are not UTF-8 become the model's byte pieces; a model without them (no byte_fallback) encodes
/// them as unknown, which decodes to nothing. Errors: Error(data) with `where`.
[[nodiscard]] std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& where);

}  // namespace millrace::runtime
