#include "runtime/data/choice_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Numbers = std::vector<std::uint16_t>;

/// One example: 65535, its bytes, index, right completion, completions, and then lists of tokens, each with its length before it.
Numbers example(std::uint16_t index, std::uint16_t right, const std::vector<Numbers>& lists) {
  Numbers numbers{65535, 0, index, right, static_cast<std::uint16_t>(lists.size() - 1)};
  for (const Numbers& list : lists) {
    numbers.push_back(static_cast<std::uint16_t>(list.size()));
    numbers.insert(numbers.end(), list.begin(), list.end());
  }
  numbers[1] = static_cast<std::uint16_t>(2 * numbers.size());
  return numbers;
}

/// A file of examples, with a header whose fields may contradict them.
struct File {
  std::vector<Numbers> examples;
  std::int32_t magic = 20240522, version = 1;
  std::int32_t count = -1, longest = -1;  // −1: as the examples are

  [[nodiscard]] std::string bytes() const {
    std::vector<std::int32_t> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = count < 0 ? static_cast<std::int32_t>(examples.size()) : count;
    for (const Numbers& numbers : examples) header[3] = std::max(header[3], static_cast<std::int32_t>(2 * numbers.size()));
    if (longest >= 0) header[3] = longest;
    std::string text(1024, '\0');
    std::memcpy(text.data(), header.data(), 1024);
    for (const Numbers& numbers : examples) text.append(reinterpret_cast<const char*>(numbers.data()), 2 * numbers.size());
    return text;
  }
};

const Numbers first_example = example(0, 1, {{5, 6, 7}, {1}, {2, 3}});
const Numbers second_example = example(1, 0, {{9}, {4, 8, 0}, {11}, {10, 10}});

void expect_refused(const std::string& bytes, const std::vector<std::string>& parts, std::int64_t vocabulary = 12) {
  const TemporaryFolder folder;
  const auto path = folder.write("choices.bin", bytes);
  expect_error([&] { const ChoiceFile file(path, vocabulary); }, ExitCode::data, parts);
}
void expect_refused(const File& file, const std::vector<std::string>& parts) { expect_refused(file.bytes(), parts); }

std::vector<std::int32_t> read(const ChoiceFile& file, std::size_t completion) {
  std::vector<std::int32_t> tokens(file.completions().at(completion).length());
  file.read(file.completions()[completion], tokens);
  return tokens;
}

TEST(ChoiceFile, HasEveryContextWithEveryCompletion) {
  const TemporaryFolder folder;
  const ChoiceFile file(folder.write("choices.bin", File{{first_example, second_example}}.bytes()), 12);
  ASSERT_EQ(file.examples().size(), 2U);
  EXPECT_EQ(file.examples()[0].first, 0U);
  EXPECT_EQ(file.examples()[0].count, 2U);
  EXPECT_EQ(file.examples()[0].right, 1U);
  EXPECT_EQ(file.examples()[1].first, 2U);
  EXPECT_EQ(file.examples()[1].count, 3U);
  EXPECT_EQ(file.examples()[1].right, 0U);
  ASSERT_EQ(file.completions().size(), 5U);
  EXPECT_EQ(read(file, 0), (std::vector<std::int32_t>{5, 6, 7, 1}));
  EXPECT_EQ(read(file, 1), (std::vector<std::int32_t>{5, 6, 7, 2, 3}));
  EXPECT_EQ(read(file, 2), (std::vector<std::int32_t>{9, 4, 8, 0}));
  EXPECT_EQ(read(file, 3), (std::vector<std::int32_t>{9, 11}));
  EXPECT_EQ(read(file, 4), (std::vector<std::int32_t>{9, 10, 10}));
  EXPECT_EQ(file.completions()[4].context_tokens, 1U);
  EXPECT_EQ(file.completions()[4].count, 2U);
  EXPECT_EQ(file.longest(), 5U);
}

TEST(ChoiceFile, KnowsLlmcsFileByItsHeader) {
  const std::vector<std::string> parts{"choices.bin", "expected llm.c's multiple-choice file", "1024", "20240522 and 1"};
  expect_refused("", parts);
  expect_refused(File{{first_example}}.bytes().substr(0, 1023), parts);
  expect_refused(File{{first_example}, 20240521}, parts);
  expect_refused(File{{first_example}, 20240522, 2}, parts);
}

TEST(ChoiceFile, HasAsManyExamplesAsItSays) {
  expect_refused(File{{}}, {"0 examples, expected one or more"});
  expect_refused(File{{first_example}, 20240522, 1, 2}, {"example 1: the file ends in it, at 1052 bytes"});
  expect_refused(File{{first_example, second_example}, 20240522, 1, 1},
                 {std::to_string(2 * second_example.size()) + " bytes after the last of 1 example, expected the file to end there"});
  expect_refused(File{{first_example}}.bytes() + '\0', {"1 byte after the last of 1 example"});
}

TEST(ChoiceFile, EndsAtNoPlaceWithinAnExample) {
  const std::string whole = File{{first_example}}.bytes();
  for (std::size_t size = 1024; size < whole.size(); ++size) expect_refused(whole.substr(0, size), {"example 0: ", "the file ends"});
}

TEST(ChoiceFile, ExamplesAreAsLongAsTheySay) {
  for (const int off : {-2, 2}) {
    Numbers numbers = second_example;
    numbers[1] = static_cast<std::uint16_t>(numbers[1] + off);
    expect_refused(File{{first_example, numbers}, 20240522, 1, -1, 100},
                   {"example 1: " + std::to_string(2 * numbers.size()) + " bytes, but its header says " + std::to_string(numbers[1])});
  }
  const auto longest = static_cast<std::int32_t>(2 * second_example.size());
  expect_refused(File{{first_example, second_example}, 20240522, 1, -1, longest - 1},
                 {"example 1: ", "(longest example: " + std::to_string(longest - 1) + ")"});
}

TEST(ChoiceFile, ExamplesBeginWithMarkAndIndex) {
  Numbers numbers = first_example;
  numbers[0] = 65534;
  expect_refused(File{{numbers}}, {"example 0: begins with 65534, expected 65535"});
  expect_refused(File{{first_example, example(2, 0, {{9}, {4}})}}, {"example 1: has the index 2"});
}

TEST(ChoiceFile, TheRightCompletionIsOneOfThem) {
  expect_refused(File{{example(0, 2, {{9}, {4}, {5}})}}, {"example 0: completion 2 of 2 is right, expected less"});
  expect_refused(File{{example(0, 0, {{9}})}}, {"example 0: completion 0 of 0 is right"});
  const TemporaryFolder folder;
  const ChoiceFile file(folder.write("choices.bin", File{{example(0, 1, {{9}, {4}, {5}})}}.bytes()), 12);
  EXPECT_EQ(file.examples()[0].right, 1U);
}

TEST(ChoiceFile, NeitherContextNorCompletionIsEmpty) {
  expect_refused(File{{example(0, 0, {{}, {4}})}}, {"example 0: a context without tokens"});
  expect_refused(File{{example(0, 0, {{9}, {4}, {}})}}, {"example 0: a completion without tokens"});
}

TEST(ChoiceFile, TokensAreOfTheVocabulary) {
  expect_refused(File{{example(0, 0, {{12}, {4}})}}, {"example 0: token 12 in a context, the model's vocabulary has 12"});
  expect_refused(File{{example(0, 0, {{9, 11}, {4, 0, 12}})}}, {"example 0: token 12 in a completion"});
  expect_refused(File{{first_example, second_example}}.bytes(), {"example 1: token 11 in a completion"}, 11);
}

TEST(ChoiceFile, ACompletionOfTheLastExampleMayEndTheFileOnly) {
  Numbers numbers = second_example;
  numbers[second_example.size() - 3] = 3;  // the last completion claims one token more than the file has
  expect_refused(File{{first_example, numbers}}, {"example 1: a completion of 3 tokens, the file ends before"});
}

// The index has 16 bits; an evaluation has more examples than that.
TEST(ChoiceFile, IndicesBeginAgainAfter65536Examples) {
  File many;
  for (std::int32_t index = 0; index < 65538; ++index) many.examples.push_back(example(static_cast<std::uint16_t>(index), 0, {{9}, {4}}));
  const TemporaryFolder folder;
  const ChoiceFile file(folder.write("choices.bin", many.bytes()), 12);
  EXPECT_EQ(file.examples().size(), 65538U);
  EXPECT_EQ(file.completions().size(), 65538U);
}

}  // namespace
}  // namespace millrace::runtime
