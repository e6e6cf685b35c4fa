#include "runtime/data/templates/lexer.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime::templates {
namespace {

constexpr std::string_view blanks = " \t\n\r\f\v";
constexpr std::array symbols = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|", ";"};

bool is_name_begin(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_' || static_cast<unsigned char>(letter) >= 128;
}
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, Context& context) : text_(text), context_(context) { context_.line = 1; }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const std::size_t tag = find_tag();
      add_data(tag);
      if (tag == text_.size()) break;
      const char kind = text_[tag + 1];
      advance_to(tag + 2);
      const char sign = at_ < text_.size() ? text_[at_] : '\0';
      if (sign == '-' || (sign == '+' && kind != '{')) advance_to(at_ + 1);
      if (kind == '#')
        comment();
      else if (kind == '%' && is_raw())
        raw();
      else
        tag_of(kind);
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), context_.line}); }

  void advance_to(std::size_t end) {
    context_.line += static_cast<int>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::size_t find_tag() const {
    for (std::size_t at = text_.find('{', at_); at != std::string_view::npos && at + 1 < text_.size(); at = text_.find('{', at + 1))
      if (text_[at + 1] == '{' || text_[at + 1] == '%' || text_[at + 1] == '#') return at;
    return text_.size();
  }

  /// Adds the text up to a tag, or to the end of the template, without the whitespace that the tag removes.
  void add_data(std::size_t tag) {
    std::string_view data = text_.substr(at_, tag - at_);
    if (tag == text_.size()) {
      if (data.ends_with('\n')) data.remove_suffix(data.ends_with("\r\n") ? 2 : 1);
    } else {
      data = trimmed_before(data, tag);
    }
    if (!data.empty()) add(Token::Kind::data, std::string(data));
    advance_to(tag);
  }

  std::string_view trimmed_before(std::string_view data, std::size_t tag) const {
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    if (sign == '-') {
      const std::size_t last = data.find_last_not_of(blanks);
      return data.substr(0, last == std::string_view::npos ? 0 : last + 1);
    }
    if (sign == '+' || text_[tag + 1] == '{') return data;
    const std::size_t line = data.rfind('\n') + 1;  // 0 if there is none
    const bool begins_line = line > 0 || at_ == 0 || text_[at_ - 1] == '\n';
    return begins_line && data.find_first_not_of(" \t\r\f\v", line) == std::string_view::npos ? data.substr(0, line) : data;
  }

  /// After a tag: `sign` is the character before its end.
  void trim_after(char sign, bool block) {
    if (sign == '-') {
      advance_to(std::min(text_.find_first_not_of(blanks, at_), text_.size()));
    } else if (block && sign != '+' && at_ < text_.size() && text_[at_] == '\n') {
      advance_to(at_ + 1);
    }
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) context_.fail("a comment without end, expected #}");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance_to(end + 2);
    trim_after(sign, true);
  }

  /// Whether {% raw %} begins here.
  bool is_raw() const {
    const std::size_t word = text_.find_first_not_of(blanks, at_);
    if (word == std::string_view::npos || text_.substr(word, 3) != "raw") return false;
    const std::size_t end = text_.find_first_not_of(blanks, word + 3);
    return end != std::string_view::npos && (text_.substr(end, 2) == "%}" || text_.substr(end, 3) == "-%}");
  }

  void raw() {
    const std::size_t end = text_.find("%}", at_);
    const char sign = text_[end - 1];
    advance_to(end + 2);
    trim_after(sign, true);
    for (std::size_t tag = text_.find("{%", at_); tag != std::string_view::npos; tag = text_.find("{%", tag + 1)) {
      std::size_t word = tag + 2;
      if (word < text_.size() && (text_[word] == '-' || text_[word] == '+')) ++word;
      word = text_.find_first_not_of(blanks, word);
      if (word == std::string_view::npos || text_.substr(word, 6) != "endraw") continue;
      const auto data = trimmed_before(text_.substr(at_, tag - at_), tag);
      if (!data.empty()) add(Token::Kind::data, std::string(data));
      const std::size_t close = text_.find("%}", word);
      if (close == std::string_view::npos) break;
      advance_to(close + 2);
      trim_after(text_[close - 1], true);
      return;
    }
    context_.fail("raw without end, expected {% endraw %}");
  }

  void tag_of(char kind) {
    const bool block = kind == '%';
    const std::string_view close = block ? "%}" : "}}";
    add(block ? Token::Kind::block_begin : Token::Kind::variable_begin, "");
    int open = 0;  // braces of mappings
    for (;;) {
      advance_to(std::min(text_.find_first_not_of(blanks, at_), text_.size()));
      if (at_ == text_.size()) context_.fail(fmt::format("a tag without end, expected {}", close));
      const std::string_view rest = text_.substr(at_);
      const bool signed_end = (rest[0] == '-' || (rest[0] == '+' && block)) && rest.substr(1).starts_with(close);
      if (open == 0 && (signed_end || rest.starts_with(close))) {
        add(block ? Token::Kind::block_end : Token::Kind::variable_end, "");
        advance_to(at_ + close.size() + (signed_end ? 1 : 0));
        return trim_after(signed_end ? rest[0] : '\0', block);
      }
      if (rest[0] == '{') ++open;
      if (rest[0] == '}' && open > 0) --open;
      token(rest);
    }
  }

  void token(std::string_view rest) {
    if (is_name_begin(rest[0])) {
      std::size_t length = 1;
      while (length < rest.size() && (is_name_begin(rest[length]) || is_digit(rest[length]))) ++length;
      add(Token::Kind::name, std::string(rest.substr(0, length)));
      return advance_to(at_ + length);
    }
    if (is_digit(rest[0])) return number(rest);
    if (rest[0] == '"' || rest[0] == '\'') return text(rest);
    for (const char* symbol : symbols) {
      if (!rest.starts_with(symbol)) continue;
      add(Token::Kind::symbol, symbol);
      return advance_to(at_ + std::string_view(symbol).size());
    }
    context_.fail(fmt::format("unexpected character {}", rest.substr(0, 1)));
  }

  void number(std::string_view rest) {
    std::size_t length = 0;
    const auto digits = [&] {
      while (length < rest.size() && (is_digit(rest[length]) || rest[length] == '_')) ++length;
    };
    digits();
    bool real = false;
    if (length + 1 < rest.size() && rest[length] == '.' && is_digit(rest[length + 1])) {
      real = true;
      ++length;
      digits();
    }
    if (length < rest.size() && (rest[length] == 'e' || rest[length] == 'E')) {
      std::size_t exponent = length + 1;
      if (exponent < rest.size() && (rest[exponent] == '+' || rest[exponent] == '-')) ++exponent;
      if (exponent < rest.size() && is_digit(rest[exponent])) {
        real = true;
        length = exponent;
        digits();
      }
    }
    std::string written;
    for (const char letter : rest.substr(0, length))
      if (letter != '_') written += letter;
    if (written.size() > (real ? 40U : 18U)) context_.fail(fmt::format("the number {}, expected at most 18 digits", written.substr(0, 60)));
    add(real ? Token::Kind::real : Token::Kind::integer, written);
    advance_to(at_ + length);
  }

  void text(std::string_view rest) {
    std::string value;
    std::size_t at = 1;
    for (; at < rest.size() && rest[at] != rest[0]; ++at) {
      if (rest[at] != '\\' || at + 1 == rest.size()) {
        value += rest[at];
        continue;
      }
      at += escape(rest, at + 1, value);
    }
    if (at >= rest.size()) context_.fail(fmt::format("a string without end, expected {}", rest[0]));
    add(Token::Kind::text, std::move(value));
    advance_to(at_ + at + 1);
  }

  /// Reads what follows a backslash; returns the number of characters.
  std::size_t escape(std::string_view rest, std::size_t at, std::string& value) const {
    constexpr std::string_view letters = "ntrbfav0\\'\"\n", meanings("\n\t\r\b\f\a\v\0\\'\"", 11);
    const char letter = rest[at];
    if (const std::size_t known = letters.find(letter); known != std::string_view::npos) {
      if (known < meanings.size()) value += meanings[known];
      return 1;
    }
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    std::uint32_t code = 0;
    std::size_t count = 0;
    for (; count < digits && at + 1 + count < rest.size(); ++count) {
      const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(rest[at + 1 + count]);
      if (digit == std::string_view::npos) break;
      code = code << 4U | static_cast<std::uint32_t>(digit < 16 ? digit : digit - 6);
    }
    if (digits == 0) {
      value += '\\';
      value += letter;
      return 1;
    }
    if (count < digits || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
      context_.fail(fmt::format("the escape \\{}, expected {} hexadecimal digits of a character", letter, digits));
    append_character(code, value);
    return 1 + digits;
  }

  std::string_view text_;
  Context& context_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, Context& context) { return Lexer(text, context).run(); }

}  // namespace millrace::runtime::templates
