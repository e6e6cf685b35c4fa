#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace::actors {

/// A file of this folder with its content at build time.
struct EmbeddedText {
  std::string_view name, text;
};
/// The only file is live_page.html, with marks for the texts that it shares with the profile page (runtime/profile/report).
[[nodiscard]] std::span<const EmbeddedText> embedded_texts();

/// The page of a running job.
[[nodiscard]] std::string live_page();

}  // namespace millrace::actors
