#pragma once

#include <span>
#include <string_view>

namespace millrace::tools {

/// A file of this folder as it was when the program was built.
struct EmbeddedText {
  std::string_view name;  // without folders
  std::string_view text;
};

/// All of them, scripts in the order in which they follow each other. Written by cmake/embed.cmake. Any thread.
[[nodiscard]] std::span<const EmbeddedText> embedded_texts();

/// One of them. Error(internal) where there is none of that name. Any thread.
[[nodiscard]] std::string_view embedded_text(std::string_view name);

}  // namespace millrace::tools
