#include "runtime/data/tokenizers/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

constexpr std::uint32_t code_points = 0x110000;

bool is_space(std::uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

std::uint8_t class_of(std::uint32_t code) {
  if (code == '\r' || code == '\n') return space | line_end;
  if (is_space(code)) return space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return number;
    default:
      return other_character;
  }
}

int combining_class(std::int32_t code) { return utf8proc_get_property(code)->combining_class; }

constexpr auto canonical = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);

/// Appends the canonical decomposition of one code point.
void decompose(std::int32_t code, std::vector<std::int32_t>& to) {
  std::array<std::int32_t, 16> parts{};  // the longest has four
  int boundary = 0;
  const auto count = utf8proc_decompose_char(code, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), canonical, &boundary);
  MILLRACE_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), ExitCode::internal, "tokenize",
                 "U+{:04X} was not decomposed", code);
  to.insert(to.end(), parts.begin(), parts.begin() + count);
}

/// Sorts the marks between two starters by combining class. Uses a stable sort, since utf8proc's own takes quadratic time on long
/// runs.
void order_marks(std::vector<std::int32_t>& codes) {
  for (auto run = codes.begin(); run != codes.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, codes.end(), [](std::int32_t code) { return combining_class(code) == 0; });
    std::stable_sort(run, end, [](std::int32_t a, std::int32_t b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
}

/// Code points before which a text may be cut ahead of normalisation: starters that combine with nothing before them and that
/// normalisation leaves unchanged.
const std::vector<bool>& steady() {
  static const std::vector<bool> table = [] {
    std::vector<bool> made(code_points, true);
    std::vector<std::int32_t> parts;
    std::vector<std::int32_t> composed;
    for (std::uint32_t i = 0x300; i < code_points; ++i) {
      if (i >= 0xac00 && i < 0xd7a4) continue;  // Hangul syllables are composed already
      const auto code = static_cast<std::int32_t>(i);
      const utf8proc_property_t* property = utf8proc_get_property(code);
      if (property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX && property->comb_index == UINT16_MAX) continue;
      parts.clear();
      decompose(code, parts);
      composed = parts;
      const auto count = utf8proc_normalize_utf32(composed.data(), static_cast<utf8proc_ssize_t>(composed.size()),
                                                  static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
      // A character that composes as the second of a pair is a mark, a vowel sign or a Hangul vowel: utf8proc marks those by the
      // high bit.
      made[i] = property->combining_class == 0 && count == 1 && composed[0] == code &&
                (property->comb_index == UINT16_MAX || (property->comb_index & 0x8000) == 0);
    }
    for (std::uint32_t i = 0x1161; i <= 0x1175; ++i) made[i] = false;  // Hangul vowels
    for (std::uint32_t i = 0x11a8; i <= 0x11c2; ++i) made[i] = false;  // and final consonants
    return made;
  }();
  return table;
}

bool is_mark(std::int32_t code) {
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

}  // namespace

const std::uint8_t* character_classes() {
  static const std::vector<std::uint8_t> classes = [] {
    std::vector<std::uint8_t> made(code_points);
    for (std::uint32_t code = 0; code < code_points; ++code) made[code] = class_of(code);
    return made;
  }();
  return classes.data();
}

bool is_surely_nfc(std::string_view text) noexcept {
  const auto& cut = steady();
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0xcc) {  // below U+0300, or the middle of such a character
      ++i;
      continue;
    }
    const Character character = character_at(text, i);
    if (!cut[character.code]) return false;
    i += character.length;
  }
  return true;
}

std::string folded_text(std::string_view text) {
  constexpr auto compatible = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  std::array<std::int32_t, 32> parts{};  // the longest has 18
  std::string folded;
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<std::int32_t>(character.code), parts.data(),
                                               static_cast<utf8proc_ssize_t>(parts.size()), compatible, &boundary);
    MILLRACE_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), ExitCode::internal, "tokenize",
                   "U+{:04X} was not decomposed", character.code);
    for (utf8proc_ssize_t part = 0; part < count; ++part) {
      const std::int32_t code = parts[static_cast<std::size_t>(part)];
      if (!is_mark(code)) append_character(static_cast<std::uint32_t>(utf8proc_tolower(code)), folded);
    }
    i += character.length;
  }
  return folded;
}

void append_nfc(std::string_view text, std::string& out) {
  const auto& cut = steady();
  std::vector<std::int32_t> codes;
  std::size_t copied = 0;  // everything before this has been appended
  std::size_t last = 0;    // begin of the newest steady character
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    if (cut[character.code]) {
      last = i;
      i += character.length;
      continue;
    }
    out.append(text.substr(copied, last - copied));
    codes.clear();
    for (i = last; i < text.size();) {
      const Character next = character_at(text, i);
      if (i != last && cut[next.code]) break;
      decompose(static_cast<std::int32_t>(next.code), codes);
      i += next.length;
    }
    order_marks(codes);
    const auto count = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                                static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (utf8proc_ssize_t k = 0; k < count; ++k) append_character(static_cast<std::uint32_t>(codes[static_cast<std::size_t>(k)]), out);
    copied = last = i;
  }
  out.append(text.substr(copied));
}

namespace {

template <class Convert>
std::string in_case(std::string_view text, Convert convert) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.length == 0) {
      out += text[at++];
      continue;
    }
    append_character(static_cast<std::uint32_t>(convert(static_cast<utf8proc_int32_t>(character.code))), out);
    at += character.length;
  }
  return out;
}

}  // namespace

std::string upper_case(std::string_view text) { return in_case(text, utf8proc_toupper); }
std::string lower_case(std::string_view text) { return in_case(text, utf8proc_tolower); }

}  // namespace millrace::runtime
