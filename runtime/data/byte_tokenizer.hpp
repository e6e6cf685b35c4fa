#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// The byte vocabulary: tokens 0 to 255 are the bytes of the text, token 256 ends a document.
struct ByteTokenizer {
  static constexpr std::int32_t end_of_document = 256;
  static constexpr std::int32_t vocabulary = 257;

  [[nodiscard]] static std::vector<std::int32_t> encode(std::string_view text) {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }

  /// Appends the byte of a token. The end-of-document token and the ids of a padded vocabulary append nothing.
  static void decode(std::int32_t token, std::string& text) {
    if (token >= 0 && token < 256) text.push_back(static_cast<char>(static_cast<unsigned char>(token)));
  }
};

}  // namespace millrace::runtime
