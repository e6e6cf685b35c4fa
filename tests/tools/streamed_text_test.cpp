#include "runtime/data/tokenizers/streamed_text.hpp"

#include <gtest/gtest.h>

#include "actors/jobs/evaluation_data.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::tools {
namespace {

/// Everything that is shown of a text in bytes, piece by piece, including the rest.
std::vector<std::string> shown(const std::string& text, const std::string& stop = "") {
  const auto bytes = runtime::open_tokenizer("byte");
  runtime::StreamedText streamed(*bytes, {'a', 'b'}, stop);
  std::vector<std::string> pieces;
  for (const char byte : text) pieces.push_back(streamed.add(static_cast<unsigned char>(byte)));
  pieces.push_back(streamed.rest());
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(StreamedText, ShowsWholeCharactersOnly) {
  EXPECT_EQ(shown("x\xc3\xa9y"), (Pieces{"x", "", "\xc3\xa9", "y", ""}));
  EXPECT_EQ(shown("\xe2\x82\xac"), (Pieces{"", "", "\xe2\x82\xac", ""}));
  EXPECT_EQ(shown("\xf0\x9f\x98\x80"), (Pieces{"", "", "", "\xf0\x9f\x98\x80", ""}));
}

TEST(StreamedText, HoldsNothingBackThatNeverBecomesACharacter) {
  EXPECT_EQ(shown("\x80z"), (Pieces{"\x80", "z", ""}));
  EXPECT_EQ(shown("\xff\xc0"), (Pieces{"\xff", "\xc0", ""}));
  EXPECT_EQ(shown("\xe2z"), (Pieces{"", "\xe2z", ""}));
  EXPECT_EQ(shown("\xe2\x82"), (Pieces{"", "", "\xe2\x82"}));  // the text ends before the character is complete
}

TEST(StreamedText, EndsAtTheStopText) {
  EXPECT_EQ(shown("one.END.", ".END"), (Pieces{"o", "n", "e", "", "", "", "", "", ""}));
  EXPECT_EQ(shown("a.EN.END", ".END"), (Pieces{"a", "", "", "", ".EN", "", "", "", ""}));
  EXPECT_EQ(shown("aaab", "aab"), (Pieces{"", "", "a", "", ""}));
  EXPECT_EQ(shown("x..", "..."), (Pieces{"x", "", "", ".."}));
}

/// One id per letter from 3 on, optionally with begin- and end-of-document tokens.
class Letters final : public runtime::Tokenizer {
 public:
  explicit Letters(bool begins) : begins_(begins) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char letter : text) ids.push_back(letter - 'a' + 3);
  }
  void encode_rest(std::string_view text, std::vector<std::int32_t>& ids) const override { encode(text, ids); }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      if (id >= 3) text.push_back(static_cast<char>('a' + id - 3));
    return text;
  }
  [[nodiscard]] std::int64_t vocabulary() const noexcept override { return 29; }
  [[nodiscard]] std::optional<std::int32_t> begin_of_document() const noexcept override {
    return begins_ ? std::optional(1) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const noexcept override { return begins_ ? std::optional(2) : std::nullopt; }

 private:
  bool begins_;
};

/// Tokens, segments and targets of the single microbatch that holds everything.
struct Filled {
  std::vector<std::int32_t> tokens, segments, targets;
};

Filled fill(const actors::EvaluationData& data, std::int64_t sequence) {
  runtime::Batch batch(1, sequence);
  data.fill_evaluation(0, batch.view());
  const auto values = [](std::span<std::int32_t> field) { return std::vector<std::int32_t>(field.begin(), field.end()); };
  return {values(batch.tokens), values(batch.segments), values(batch.targets)};
}

TEST(EvaluationData, PutsAFileBetweenBeginAndEnd) {
  const tests::TemporaryFolder folder;
  runtime::DataConfig config;
  config.text = {folder.write("1", "ab"), folder.write("2", ""), folder.write("3", "cde")};
  config.held_out = 0;
  const actors::EvaluationData with(config, std::make_unique<Letters>(true).get(), 29, {1, 12, 1, 1, true});
  EXPECT_EQ(with.files().size(), 3U);
  EXPECT_EQ(with.tokens(), 9);
  EXPECT_EQ(with.target_bytes(), 5);
  EXPECT_EQ(with.evaluation_targets(1), 7);
  const auto filled = fill(with, 12);
  EXPECT_EQ(filled.tokens, (std::vector<std::int32_t>{1, 3, 4, 2, 1, 5, 6, 7, 0, 0, 0, 0}));
  EXPECT_EQ(filled.targets, (std::vector<std::int32_t>{3, 4, 2, -1, 5, 6, 7, 2, -1, -1, -1, -1}));
  EXPECT_EQ(filled.segments, (std::vector<std::int32_t>{1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0}));

  // Without them, the first token of a document is not a target, and its bytes are not counted.
  const actors::EvaluationData without(config, std::make_unique<Letters>(false).get(), 29, {1, 12, 1, 1, true});
  EXPECT_EQ(without.tokens(), 5);
  EXPECT_EQ(without.target_bytes(), 3);
  EXPECT_EQ(without.evaluation_targets(1), 3);
  EXPECT_EQ(fill(without, 12).targets, (std::vector<std::int32_t>{4, -1, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1}));
}

}  // namespace
}  // namespace millrace::tools
