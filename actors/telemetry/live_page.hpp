#pragma once

#include <span>
#include <string_view>

namespace millrace::actors {

/// A file of this folder with its content at build time.
struct EmbeddedText {
  std::string_view name, text;
};
/// The only file is live_page.html.
[[nodiscard]] std::span<const EmbeddedText> embedded_texts();

}  // namespace millrace::actors
