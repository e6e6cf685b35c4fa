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

/// Text to token ids and back. Immutable once open: all members may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of `text` to `ids`. Any bytes are taken, also those that are not UTF-8; no beginning or end of document is added, and
  /// text that spells a special token is text. Texts encoded one by one are not the text encoded whole.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  /// The same for a text that goes on where another one was cut: nothing is put before it, where encode() does that (a space, in
  /// SentencePiece's vocabularies).
  virtual void encode_rest(std::string_view text, std::vector<std::int32_t>& ids) const { encode(text, ids); }

  /// The text of `ids`; special tokens and ids that nothing is known of leave nothing.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// All ids are below this; a model's table may be larger.
  [[nodiscard]] virtual std::int64_t vocabulary() const noexcept = 0;

  /// What a document begins with, and what ends it; nothing where the tokenizer has no such token.
  [[nodiscard]] virtual std::optional<std::int32_t> begin_of_document() const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_document() const noexcept = 0;
};

/// Opens what `path` names, by content and ending:
///   "byte"                              the byte vocabulary (see ByteTokenizer)
///   a folder                            the first that it has of: tokenizer.json, tokenizer.model, *.tiktoken
///   tokenizer.json                      byte-level BPE as Hugging Face's tokenizers keeps it
///   *.model                             SentencePiece
///   *.tiktoken                          lines of base64 and rank; its split pattern by what the file is known for (see tiktoken.hpp)
/// Errors: Error(data) naming the file, what was found and what was wanted.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace millrace::runtime
