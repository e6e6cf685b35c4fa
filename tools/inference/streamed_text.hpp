#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::tools {

/// The text of tokens as they come: never a part of a UTF-8 character whose rest may follow, never a part of the stop text.
class StreamedText {
 public:
  /// `before` are the tokens that the text goes on behind (their text is not given again); `stop` ends it, empty: nothing does.
  StreamedText(const runtime::Tokenizer& tokenizer, std::vector<std::int32_t> before, std::string stop);

  /// What can be shown now that this token is there. After the stop text nothing is.
  [[nodiscard]] std::string add(std::int32_t token);
  /// What was held back: no token follows.
  [[nodiscard]] std::string rest();
  /// Whether the stop text was found; it and what follows are not part of the text.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 private:
  const runtime::Tokenizer& tokenizer_;
  std::vector<std::int32_t> tokens_;
  std::string stop_;
  std::size_t decoded_ = 0;  // bytes of the text of all tokens that have been looked at
  std::string held_;         // of them, those not given out
  bool stopped_ = false;
};

/// Bytes at the end of `text` that begin a UTF-8 character and do not finish it; 0 for what can never become one.
[[nodiscard]] std::size_t unfinished_bytes(std::string_view text) noexcept;

}  // namespace millrace::tools
