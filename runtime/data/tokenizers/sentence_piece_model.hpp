#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"

namespace millrace::runtime {

/// Converts a SentencePiece model to our own byte pairs, which encode twenty times as fast as libsentencepiece. Returns nothing
/// if the two could differ: for unigram models, for any normalisation other than writing spaces as U+2581, for user-defined or
/// unused pieces, for pieces of equal score, and for models without byte pieces. What remains are byte-pair models such as those
/// of Llama 2 and Mistral. `bytes` is a message ModelProto that libsentencepiece has accepted.
[[nodiscard]] std::optional<BytePairModel> byte_pairs_of_sentence_piece(std::string_view bytes, const std::string& where);

}  // namespace millrace::runtime
