#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// The text of tokens as they arrive. Never shows part of a UTF-8 character that may still be completed, nor part of the stop
/// text.
class StreamedText {
 public:
  /// `before` are the tokens that precede the text (their text is not returned again). `stop` ends the text; empty: no stop text.
  StreamedText(const Tokenizer& tokenizer, std::vector<std::int32_t> before, std::string stop);

  /// Returns what can be shown once this token is known; nothing after the stop text.
  [[nodiscard]] std::string add(std::int32_t token);
  /// Returns what was held back, once no further token follows.
  [[nodiscard]] std::string rest();
  /// Whether the stop text was found; it and what follows are not part of the text.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> tokens_;
  std::string stop_;
  std::size_t decoded_ = 0;  // bytes of the text of all tokens so far
  std::string held_;         // the part of them that was not returned yet
  bool stopped_ = false;
};

/// Number of bytes at the end of `text` that begin a UTF-8 character without completing it; 0 for bytes that can never become
/// one.
[[nodiscard]] std::size_t unfinished_bytes(std::string_view text) noexcept;

}  // namespace millrace::runtime
