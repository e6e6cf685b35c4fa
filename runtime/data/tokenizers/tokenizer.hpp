#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// Converts text to token ids and back. Immutable once open: all members may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of `text` to `ids`. Any bytes are accepted, UTF-8 or not. No begin or end of document is added, and text
  /// that spells a special token is encoded as text. Encoding two texts separately may differ from encoding their concatenation.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  /// The same for text that continues after a cut: nothing is prepended, where encode() would prepend something (a space, in
  /// SentencePiece's vocabularies).
  virtual void encode_rest(std::string_view text, std::vector<std::int32_t>& ids) const { encode(text, ids); }

  /// The text of `ids`; special tokens and unknown ids give no text.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// A token by itself, special tokens among them.
  struct Spelling {
    std::string text;      // UTF-8; empty for an id that no token has
    bool readable = true;  // false: the token's bytes are no text, and `text` is the piece as the tokenizer's file spells it
  };
  /// By default what decode() gives, with a byte that is not UTF-8 written as "<0xE2>".
  [[nodiscard]] virtual Spelling spelling(std::int32_t id) const;

  /// A token that chat templates write by its text, such as "<|im_end|>", and the white space beside it that belongs to it.
  struct SpecialToken {
    std::string text;
    std::int32_t id = 0;
    bool strips_left = false, strips_right = false;
  };
  /// The special tokens whose text the tokenizer's file has. encode() does not look for them; encode_with_special() does.
  [[nodiscard]] virtual std::vector<SpecialToken> special_tokens() const { return {}; }
  /// Like encode(), for the text after a special token.
  virtual void encode_after_special(std::string_view text, std::vector<std::int32_t>& ids) const { encode(text, ids); }

  /// The token that fills up rows, if the tokenizer's own file says which one that is.
  [[nodiscard]] virtual std::optional<std::int32_t> padding() const noexcept { return std::nullopt; }

  /// All ids are below this number; a model's embedding may have more rows.
  [[nodiscard]] virtual std::int64_t vocabulary() const noexcept = 0;

  /// The token that begins a document, and the one that ends it; nothing if the tokenizer has no such token.
  [[nodiscard]] virtual std::optional<std::int32_t> begin_of_document() const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_document() const noexcept = 0;
};

/// Opens the tokenizer that `path` names, by content and suffix:
///   "byte"                              the byte vocabulary (see ByteTokenizer)
///   a folder                            the first that exists of tokenizer.json, tokenizer.model, vocab.json with merges.txt, *.tiktoken
///   tokenizer.json                      byte-level BPE in the format of Hugging Face's tokenizers
///   vocab.json                          with the merges.txt beside it: GPT-2's older layout (see vocabulary_and_merges.hpp)
///   *.model                             SentencePiece
///   *.tiktoken                          lines of base64 and rank; the split pattern follows from the file's name (see tiktoken.hpp)
/// Errors: Error(data) with the file, what was found and what was expected.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace millrace::runtime
