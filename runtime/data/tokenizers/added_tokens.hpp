#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// Texts that are one token wherever they stand (what Hugging Face calls added tokens, the special ones aside). Immutable once sorted.
class AddedTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;  // 0: there is none
    std::int32_t id = 0;
  };

  /// `text` is not empty. Call sort() after the last one; false if the same text is there twice.
  void add(std::string text, std::int32_t id) { tokens_.push_back({std::move(text), id}); }
  [[nodiscard]] bool sort();

  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }
  /// The first place at or behind `from` where one stands, and the longest that stands there.
  [[nodiscard]] Found find(std::string_view text, std::size_t from) const noexcept;

 private:
  struct Token {
    std::string text;
    std::int32_t id;
  };
  std::vector<Token> tokens_;           // in byte order
  std::array<bool, 256> first_byte_{};  // that a token begins with
};

}  // namespace millrace::runtime
