#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// Texts that are a single token wherever they occur (Hugging Face calls them added tokens; special tokens are not among them).
/// Immutable once sorted.
class AddedTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;  // 0: not found
    std::int32_t id = 0;
  };

  /// Adds a token; `text` must not be empty. Call sort() after the last one; it returns false if the same text was added twice.
  void add(std::string text, std::int32_t id) { tokens_.push_back({std::move(text), id}); }
  [[nodiscard]] bool sort();

  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }
  /// Finds the first occurrence at or after `from`, and the longest token there.
  [[nodiscard]] Found find(std::string_view text, std::size_t from) const noexcept;

 private:
  struct Token {
    std::string text;
    std::int32_t id;
  };
  std::vector<Token> tokens_;           // in byte order
  std::array<bool, 256> first_byte_{};  // whether a token begins with this byte
};

}  // namespace millrace::runtime
