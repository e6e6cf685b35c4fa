#include <array>

#include "runtime/data/tokenizers/splitter.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

constexpr std::array<const char*, 5> expressions = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

/// Reads characters of a text with their classes.
class Scanner {
 public:
  Scanner(std::string_view text, const std::uint8_t* classes) : text_(text), classes_(classes) {}

  struct Here {
    std::uint8_t kind;     // CharacterClass
    std::uint32_t length;  // 0 at the end of the text
  };
  [[nodiscard]] Here at(std::size_t place) const noexcept {
    if (place >= text_.size()) return {other_character, 0};
    const auto byte = static_cast<unsigned char>(text_[place]);
    if (byte < 0x80) return {classes_[byte], 1};
    const Character character = character_at(text_, place);
    return {classes_[character.code], character.length};
  }
  /// The end of a run of characters of class `expected` under `mask`, which takes at most `max_count` characters.
  [[nodiscard]] std::size_t end_of_run(std::size_t place, std::uint8_t mask, std::uint8_t expected, std::size_t max_count) const noexcept {
    for (std::size_t taken = 0; taken < max_count; ++taken) {
      const Here here = at(place);
      if (here.length == 0 || (here.kind & mask) != expected) break;
      place += here.length;
    }
    return place;
  }
  [[nodiscard]] std::size_t letters(std::size_t place) const noexcept { return end_of_run(place, letter, letter, all); }
  [[nodiscard]] std::size_t others(std::size_t place) const noexcept {
    return end_of_run(place, letter | number | space, other_character, all);
  }
  static constexpr std::size_t all = static_cast<std::size_t>(-1);

 private:
  std::string_view text_;
  const std::uint8_t* classes_;
};

/// The end of 's, 't, 'm, 'd, 're, 've or 'll that begins at an apostrophe, or `from` if there is none. When case is ignored, the
/// long s (U+017F) counts as s too.
std::size_t end_of_contraction(std::string_view text, std::size_t from, bool any_case) {
  const auto at = [&](std::size_t i) -> char {
    if (from + i >= text.size()) return '\0';
    const char byte = text[from + i];
    return any_case && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte;
  };
  const char first = at(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return from + 2;
  const char second = at(2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return from + 3;
  if (any_case && text.substr(from + 1).starts_with("\u017f")) return from + 3;
  return from;
}

/// \s+(?!\S)|\s+ : a run of white space. Its last character is left to the next piece unless the run is a single character.
std::size_t end_of_spaces(const Scanner& scanner, std::string_view text, std::size_t from) {
  const std::size_t end = scanner.end_of_run(from, space, space, Scanner::all);
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while (last > from && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return last > from ? last : end;
}

class Gpt2Splitter final : public Splitter {
 public:
  [[nodiscard]] std::size_t end_of_piece(std::string_view text, std::size_t from) const override {
    const Scanner scanner(text, classes_);
    if (text[from] == '\'') {
      const std::size_t end = end_of_contraction(text, from, false);
      if (end > from) return end;
    }
    const std::size_t start = from + (text[from] == ' ' ? 1 : 0);
    const auto here = scanner.at(start);
    if (here.length == 0 || (here.kind & space) != 0) return end_of_spaces(scanner, text, from);
    if (here.kind == letter) return scanner.letters(start);
    if (here.kind == number) return scanner.end_of_run(start, number, number, Scanner::all);
    return scanner.others(start);
  }

 private:
  const std::uint8_t* classes_ = character_classes();
};

class Cl100kSplitter final : public Splitter {
 public:
  Cl100kSplitter(std::size_t digits, bool joins_last_spaces) : digits_(digits), joins_last_spaces_(joins_last_spaces) {}

  [[nodiscard]] std::size_t end_of_piece(std::string_view text, std::size_t from) const override {
    const Scanner scanner(text, classes_);
    if (text[from] == '\'') {
      const std::size_t end = end_of_contraction(text, from, true);
      if (end > from) return end;
    }
    const auto here = scanner.at(from);
    if (here.kind == letter) return scanner.letters(from);
    if (here.kind == number) return scanner.end_of_run(from, number, number, digits_);
    const auto next = scanner.at(from + here.length);
    if ((here.kind & line_end) == 0 && next.length != 0 && next.kind == letter) return scanner.letters(from + here.length);
    const std::size_t start = from + (text[from] == ' ' ? 1 : 0);
    const auto first = scanner.at(start);
    if (first.length != 0 && first.kind == other_character) {
      return scanner.end_of_run(scanner.others(start), line_end, line_end, Scanner::all);
    }
    return spaces(scanner, text, from);
  }

 private:
  [[nodiscard]] std::size_t spaces(const Scanner& scanner, std::string_view text, std::size_t from) const {
    const std::size_t end = scanner.end_of_run(from, space, space, Scanner::all);
    if (joins_last_spaces_ && end == text.size()) return end;
    for (std::size_t i = end; i > from; --i) {  // \s*[\r\n]+
      if (text[i - 1] == '\n' || text[i - 1] == '\r') return i;
    }
    return end_of_spaces(scanner, text, from);
  }

  std::size_t digits_;
  bool joins_last_spaces_;
  const std::uint8_t* classes_ = character_classes();
};

}  // namespace

const char* expression_of(SplitPattern pattern) noexcept { return expressions[static_cast<std::size_t>(pattern)]; }

std::unique_ptr<Splitter> make_splitter(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return std::make_unique<Gpt2Splitter>();
    case SplitPattern::llama3:
      return std::make_unique<Cl100kSplitter>(3, false);
    case SplitPattern::qwen2:
      return std::make_unique<Cl100kSplitter>(1, false);
    case SplitPattern::cl100k:
      return std::make_unique<Cl100kSplitter>(3, true);
    case SplitPattern::o200k:
      break;
  }
  return make_pattern_splitter(expression_of(pattern), "the pattern o200k");
}

std::unique_ptr<Splitter> make_splitter(const std::string& expression, const std::string& where) {
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    if (expression == expressions[i]) return make_splitter(static_cast<SplitPattern>(i));
  }
  return make_pattern_splitter(expression, where);
}

}  // namespace millrace::runtime
