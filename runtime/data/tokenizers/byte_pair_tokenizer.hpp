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

/// Space as SentencePiece writes it in its pieces: U+2581.
inline constexpr std::string_view visible_space = "\u2581";

/// Whether a visible space stands behind another character in this piece.
[[nodiscard]] bool has_word_border(std::string_view piece) noexcept;

/// How a byte-pair tokenizer over characters (SentencePiece's way) writes spaces before it merges.
struct SpaceRule {
  bool replace = false;                                                                        // each space by a visible one
  enum class Prepend : std::uint8_t { never, always, unless_there } prepend = Prepend::never;  // a visible space before a text
  bool prepend_once = false;  // before the first part of a text only, not behind added tokens
  bool cut_at_each = false;   // a piece begins at each visible space
  bool cut_at_words = false;  // a piece begins at a visible space behind another character: no piece of the vocabulary crosses there
  bool strip_first = false;   // decoding drops the one that encoding prepended
};

/// All that a byte-pair tokenizer is made of.
struct BytePairModel {
  explicit BytePairModel(std::size_t merges) : pairs(merges) {}

  std::string where;                                           // the file, for messages
  std::vector<std::string> texts;                              // what each id stands for; special ids stand for nothing
  std::array<std::int32_t, 256> bytes{};                       // the id of each byte
  std::unordered_map<std::uint32_t, std::int32_t> characters;  // the ids that merging starts from; none: it starts from bytes
  BytePairs pairs;
  std::unordered_map<std::string, std::int32_t> whole;  // pieces that are looked up before anything is merged
  std::vector<std::unique_ptr<Splitter>> splitters;     // each cuts the pieces of the one before it
  bool nfc = false;                                     // normalisation form C first
  bool prefix_space = false;                            // a space before a text that does not begin with one
  SpaceRule spaces;
  AddedTokens added;             // looked for in the text as it is
  AddedTokens added_normalized;  // and after normalisation
  std::optional<std::int32_t> begin_of_document, end_of_document;
};

/// `model.pairs`, `bytes` and `characters` name ids below texts.size().
[[nodiscard]] std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairModel model);

}  // namespace millrace::runtime
