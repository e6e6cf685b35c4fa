#include "actors/debug/cut_lines.hpp"

namespace millrace::actors {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// The number of bytes of the first `characters` characters.
std::size_t bytes_of(std::string_view line, std::size_t characters) {
  std::size_t at = 0;
  for (; at < line.size() && characters > 0; --characters) do
      ++at;
    while (at < line.size() && continues_character(line[at]));
  return at;
}

}  // namespace

std::string cut_lines(std::string_view text, std::size_t width) {
  if (width == 0) return std::string(text);
  std::string cut;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (bytes_of(line, width) == line.size()) {
      cut += line;
    } else {
      cut += line.substr(0, bytes_of(line, width - 1));
      cut += "…";
    }
    if (end == std::string_view::npos) break;
    cut += '\n';
    text.remove_prefix(end + 1);
  }
  return cut;
}

}  // namespace millrace::actors
