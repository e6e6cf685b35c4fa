#include "configs/value.hpp"

#include <fmt/format.h>

#include <cmath>

namespace millrace::configs {
namespace {

struct Writer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    std::string text = fmt::format("{}", value);
    // "3" would be read back as an integer.
    if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  template <class Entry>
  std::string operator()(const std::vector<Entry>& values) const {
    std::string text = "[";
    for (const Entry& value : values) text += (text.size() > 1 ? ", " : "") + (*this)(value);
    return text + "]";
  }
};

}  // namespace

std::string to_text(const Value& value) { return std::visit(Writer{}, value); }

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    switch (character) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\r':
        result += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) {
          result += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(character)));
        } else {
          result += character;
        }
    }
  }
  return result + '"';
}

}  // namespace millrace::configs
