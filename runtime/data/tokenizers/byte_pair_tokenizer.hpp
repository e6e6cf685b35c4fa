#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/data/tokenizers/added_tokens.hpp"
#include "runtime/data/tokenizers/byte_pairs.hpp"
#include "runtime/data/tokenizers/splitter.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// SentencePiece's symbol for a space in its pieces: U+2581.
inline constexpr std::string_view visible_space = "\u2581";

/// In place of the id of a byte that a vocabulary has no piece for: a text with this byte is refused.
inline constexpr std::int32_t no_piece = -1;

/// Whether the piece has a visible space after another character.
[[nodiscard]] bool has_word_border(std::string_view piece) noexcept;

/// How a byte-pair tokenizer over characters (as SentencePiece's) rewrites spaces before it merges.
struct SpaceRule {
  bool replace = false;  // each space becomes a visible space
  // whether a visible space is prepended to a text
  enum class Prepend : std::uint8_t { never, always, unless_there } prepend = Prepend::never;
  bool prepend_once = false;  // prepend only at the beginning of a text, not after added tokens
  bool cut_at_each = false;   // a piece begins at each visible space
  // a piece begins at a visible space that follows another character; no piece of the vocabulary crosses such a place
  bool cut_at_words = false;
  bool strip_first = false;  // decoding drops the space that encoding prepended
};

/// Everything that defines a byte-pair tokenizer.
struct BytePairModel {
  explicit BytePairModel(std::size_t merges) : pairs(merges) {}

  std::string where;                                              // the file, for messages
  std::vector<std::string> texts;                                 // the text of each id; empty for special ids
  std::unordered_map<std::int32_t, Tokenizer::Spelling> spelled;  // of tokens whose text does not tell it
  std::array<std::int32_t, 256> bytes{};                          // the id of each byte, or no_piece
  std::unordered_map<std::uint32_t, std::int32_t> characters;     // the ids that merging starts from; empty: merging starts from bytes
  BytePairs pairs;
  std::unordered_map<std::string, std::int32_t> whole;  // pieces that are looked up whole before merging
  std::vector<std::unique_ptr<Splitter>> splitters;     // each splits the pieces of the one before
  bool nfc = false;                                     // apply normalisation form C first
  bool prefix_space = false;                            // prepend a space to a text that does not begin with one
  SpaceRule spaces;
  AddedTokens added;                             // matched in the text before normalisation
  AddedTokens added_normalized;                  // matched after normalisation
  std::vector<Tokenizer::SpecialToken> special;  // in any order
  std::optional<std::int32_t> begin_of_document, end_of_document, padding;
};

/// The ids in `model.pairs`, `bytes` and `characters` must be below texts.size().
[[nodiscard]] std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairModel model);

}  // namespace millrace::runtime
