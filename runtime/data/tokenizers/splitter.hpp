#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// Cuts a text into pieces that are encoded one by one (the pre-tokens). Immutable: any thread.
class Splitter {
 public:
  virtual ~Splitter() = default;
  /// Where the piece that begins at `from` < text.size() ends; beyond `from`. The text is well-formed UTF-8 and may be looked at on both
  /// sides of the piece.
  [[nodiscard]] virtual std::size_t end_of_piece(std::string_view text, std::size_t from) const = 0;
};

/// The patterns that published tokenizers split by.
///
///   gpt2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   llama3    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
///   qwen2     llama3's with digits one by one
///   cl100k    llama3's, but white space at the end of the text is one piece
///   o200k     words by their case, with what follows an apostrophe; digits by three
///
/// All but o200k are written out by hand; it, and any other pattern, is left to PCRE2.
enum class SplitPattern : std::uint8_t { gpt2, llama3, qwen2, cl100k, o200k };

[[nodiscard]] std::unique_ptr<Splitter> make_splitter(SplitPattern pattern);

/// A splitter by any regular expression: what it matches is a piece, and so is what lies between. The known ones are recognised by their
/// spelling (see SplitPattern). \s means White_Space, as in the libraries that tokenizers are trained with.
/// Errors: Error(data) naming `where` for an expression that PCRE2 does not take; end_of_piece() throws Error(data) where an expression
/// needs more steps than PCRE2 is allowed (nested repetition).
[[nodiscard]] std::unique_ptr<Splitter> make_splitter(const std::string& expression, const std::string& where);

/// The same without looking for the known ones.
[[nodiscard]] std::unique_ptr<Splitter> make_pattern_splitter(const std::string& expression, const std::string& where);

/// What a known pattern is spelled like.
[[nodiscard]] const char* expression_of(SplitPattern pattern) noexcept;

}  // namespace millrace::runtime
