#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// Splits a text into pieces that are encoded separately (pre-tokens). Immutable; any thread.
class Splitter {
 public:
  virtual ~Splitter() = default;
  /// The end of the piece that begins at `from` < text.size(); greater than `from`. The text is well-formed UTF-8, and an
  /// implementation may look at both sides of the piece.
  [[nodiscard]] virtual std::size_t end_of_piece(std::string_view text, std::size_t from) const = 0;
};

/// The split patterns of published tokenizers.
///
///   gpt2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   llama3    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
///   qwen2     llama3's with digits one by one
///   cl100k    llama3's, but white space at the end of the text is one piece
///   o200k     words by their case, with what follows an apostrophe; digits by three
///
/// All but o200k are implemented by hand; PCRE2 matches o200k and every other pattern.
enum class SplitPattern : std::uint8_t { gpt2, llama3, qwen2, cl100k, o200k };

[[nodiscard]] std::unique_ptr<Splitter> make_splitter(SplitPattern pattern);

/// A splitter for an arbitrary regular expression: each match is a piece, and so is the text between two matches. Known patterns
/// are recognised by their spelling (see SplitPattern). \s means White_Space, as in the libraries that tokenizers are trained
/// with. Errors: Error(data) with `where` for an expression that PCRE2 does not accept; end_of_piece() throws Error(data) if an
/// expression needs more steps than PCRE2 is allowed (nested repetition).
[[nodiscard]] std::unique_ptr<Splitter> make_splitter(const std::string& expression, const std::string& where);

/// The same, but always by PCRE2.
[[nodiscard]] std::unique_ptr<Splitter> make_pattern_splitter(const std::string& expression, const std::string& where);

/// The regular expression of a known pattern.
[[nodiscard]] const char* expression_of(SplitPattern pattern) noexcept;

}  // namespace millrace::runtime
