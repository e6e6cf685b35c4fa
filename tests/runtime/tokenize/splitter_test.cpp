#include "runtime/data/tokenizers/splitter.hpp"

#include <gtest/gtest.h>

#include "runtime/data/tokenizers/text_cut.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/mixed_text.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;

std::vector<std::string> pieces_of(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = splitter.end_of_piece(text, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(Splitter, CutsAsTheirPatternsSay) {
  const auto gpt2 = make_splitter(SplitPattern::gpt2);
  EXPECT_EQ(pieces_of(*gpt2, "I'll  pay 1234 to\n\n you!"), (Pieces{"I", "'ll", " ", " pay", " 1234", " to", "\n\n", " you", "!"}));
  EXPECT_EQ(pieces_of(*gpt2, "IT'S   "), (Pieces{"IT", "'", "S", "   "}));
  const auto llama3 = make_splitter(SplitPattern::llama3);
  EXPECT_EQ(pieces_of(*llama3, "IT'S 12345;\n\n  x\t\ty"), (Pieces{"IT", "'S", " ", "123", "45", ";\n\n", " ", " x", "\t", "\ty"}));
  EXPECT_EQ(pieces_of(*llama3, "a\n  "), (Pieces{"a", "\n", "  "}));
  EXPECT_EQ(pieces_of(*make_splitter(SplitPattern::cl100k), "a\n  "), (Pieces{"a", "\n  "}));
  EXPECT_EQ(pieces_of(*make_splitter(SplitPattern::qwen2), "12 x"), (Pieces{"1", "2", " x"}));
}

class HandWritten : public ::testing::TestWithParam<SplitPattern> {};

// The hand-written splitters agree with PCRE2's matching of the pattern, on text of every kind.
TEST_P(HandWritten, IsThePattern) {
  const auto by_hand = make_splitter(GetParam());
  const auto by_pattern = make_pattern_splitter(expression_of(GetParam()), "the pattern");
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = tests::mixed_text(1000, seed, false);
    ASSERT_EQ(pieces_of(*by_hand, text), pieces_of(*by_pattern, text)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, HandWritten,
                         testing::Values(SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::qwen2, SplitPattern::cl100k));

TEST(Splitter, WhatIsBetweenMatchesIsAPiece) {
  EXPECT_EQ(pieces_of(*make_splitter("[0-9]", "x"), "ab12c"), (Pieces{"ab", "1", "2", "c"}));
  EXPECT_EQ(pieces_of(*make_splitter("x*", "x"), "abxxc"), (Pieces{"ab", "xx", "c"}));  // empty matches are ignored
  // U+180E is no longer white space, although PCRE2's \s includes it.
  EXPECT_EQ(pieces_of(*make_splitter(R"([\s]+|\S+)", "x"), "a\u180eb \u3000c"), (Pieces{"a\u180eb", " \u3000", "c"}));
}

TEST(Splitter, RefusesWhatIsNoExpression) {
  expect_error([] { (void)make_splitter("a(b", "t.json"); }, ExitCode::data, {"t.json", "a(b", "parenthesis"});
  expect_error([] { (void)make_splitter(R"(\C)", "t.json"); }, ExitCode::data, {"t.json", "\\C"});
  expect_error([] { (void)make_splitter(std::string(9000, 'a'), "t.json"); }, ExitCode::data, {"9000 bytes", "8192"});
  const auto slow = make_splitter("(a+)+b", "t.json");
  expect_error([&] { (void)slow->end_of_piece(std::string(64, 'a') + "cb", 0); }, ExitCode::data, {"t.json", "limit"});
}

TEST(Utf8, TakesWhatIsWellFormedAndNothingElse) {
  for (const std::string_view bad :
       {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xff", "\xf0\x80\x80\x80", "\xe0\x9f\xbf"}) {
    EXPECT_EQ(character_at(bad, 0).length, 0u);
    EXPECT_EQ(end_of_valid(bad, 0), 0u);
  }
  for (const std::uint32_t code : {0x0u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text;
    append_character(code, text);
    EXPECT_EQ(character_at(text, 0).code, code);
    EXPECT_EQ(character_at(text, 0).length, text.size());
  }
  const std::string mixed = "abcdefgh\u20ac\xff\xfezz";
  EXPECT_EQ(end_of_valid(mixed, 0), 11u);
  EXPECT_EQ(end_of_invalid(mixed, 11), 13u);
}

std::string nfc(std::string_view text) {
  std::string out;
  append_nfc(text, out);
  return out;
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1ead");       // marks in the order of their classes
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "\ud55c");  // Hangul
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\u212b\u2126\u0344"), "\u00c5\u03a9\u0308\u0301");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");                        // excluded from composition
  EXPECT_EQ(nfc("\ufb01 \u00bd \u2460"), "\ufb01 \u00bd \u2460");  // compatibility forms are kept
  EXPECT_EQ(nfc("x\u0301\u0301y"), "x\u0301\u0301y");
  EXPECT_TRUE(is_surely_nfc("plain \u4e2d\ud55c\u00e9"));
  EXPECT_FALSE(is_surely_nfc("e\u0301"));
}

TEST(Nfc, IsTheSameTwiceAndInParts) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const std::string text = tests::mixed_text(2000, seed, false);
    const std::string once = nfc(text);
    ASSERT_EQ(nfc(once), once);
    // Normalising the parts gives what utf8proc gives for the whole: a cut before plain ASCII changes nothing.
    const std::size_t cut = text.find("\ne");
    if (cut != std::string::npos && end_of_valid(text, 0) == text.size() && static_cast<unsigned char>(text[cut + 2]) < 0x80) {
      ASSERT_EQ(nfc(text.substr(0, cut)) + nfc(text.substr(cut)), once);
    }
  }
}

TEST(Nfc, TakesLongRunsOfMarks) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";  // a quadratic sort would take minutes
  EXPECT_EQ(nfc(text).size(), text.size() - 1 - 2 + 3);                       // a and a mark below became one, U+1EA1
}

TEST(NextCut, IsWhereEveryPatternCuts) {
  EXPECT_EQ(next_cut("short", 100), 5u);
  EXPECT_EQ(next_cut("ab\ncd\nef", 1), 3u);
  EXPECT_EQ(next_cut("ab \ncd\n ef\ngh", 1), 11u);
  const std::string endless(1000, 'x');
  EXPECT_EQ(next_cut(endless, 10), 160u);
  EXPECT_EQ(next_cut(std::string(159, 'x') + "\nyy", 10), 160u);
  EXPECT_EQ(next_cut(std::string(160, 'x') + "\nyy", 10), 160u) << "a line end there comes too late";
  EXPECT_EQ(next_cut("ab\n/cd\nef", 1), 7u) << "no pattern is cut before a slash";
  EXPECT_EQ(next_cut("ab\n", 1), 3u);
  EXPECT_EQ(next_cut("ab\ncd", 5), 5u);
  EXPECT_EQ(next_cut("ab\ncd", 2), 3u);
  std::string wide;
  for (int i = 0; i < 300; ++i) wide += "\u4e2d";
  EXPECT_EQ(next_cut(wide, 10) % 3, 0u);
  for (const auto pattern : {SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::qwen2, SplitPattern::cl100k, SplitPattern::o200k}) {
    const auto splitter = make_splitter(pattern);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::string text = tests::mixed_text(5000, seed, false);
      const std::size_t cut = next_cut(text, 500);
      if (text[cut - 1] != '\n') continue;
      auto parts = pieces_of(*splitter, text.substr(0, cut));
      const auto rest = pieces_of(*splitter, text.substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      ASSERT_EQ(parts, pieces_of(*splitter, text)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace millrace::runtime
