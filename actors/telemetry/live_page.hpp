#pragma once

#include <span>
#include <string_view>

namespace millrace::actors {

/// A file of this folder as it was when the program was built.
struct EmbeddedText {
  std::string_view name, text;
};
/// live_page.html, which is all.
[[nodiscard]] std::span<const EmbeddedText> embedded_texts();

}  // namespace millrace::actors
