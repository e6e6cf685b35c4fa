#include "runtime/data/dataset.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/batch_source.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

std::vector<std::int32_t> all_tokens(const TokenStream& stream) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

std::string tokens_of_16_bits(const std::vector<std::uint16_t>& tokens) {
  std::string bytes(tokens.size() * 2, '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return bytes;
}

TEST(Dataset, TextIsBytesWithAnEndForEachDocument) {
  const TemporaryFolder folder;
  folder.write("a", "hi");
  folder.write("b", "");
  folder.write("c", "\xff");
  const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = 0}, 257);
  EXPECT_EQ(all_tokens(*data.train), (std::vector<std::int32_t>{'h', 'i', 256, 255, 256}));
  EXPECT_EQ(data.held_out, nullptr);
  EXPECT_EQ(data.train->next_border(0, 5), 2);
  EXPECT_EQ(data.train->next_border(2, 5), 2);
  EXPECT_EQ(data.train->next_border(3, 5), 4);
  EXPECT_EQ(data.train->next_border(3, 4), 4);
  EXPECT_EQ(data.train->next_border(5, 5), 5);
}

TEST(Dataset, TextIsReadFromAnyTokenOn) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i)
    folder.write(std::to_string(100 + i), std::string(static_cast<std::size_t>(1 + i * 3 % 7), static_cast<char>('a' + i)));
  const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = 0}, 257);
  const auto all = all_tokens(*data.train);
  for (std::size_t first = 0; first < all.size(); ++first) {
    std::vector<std::int32_t> part(all.size() - first);
    data.train->read(static_cast<std::int64_t>(first), part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
    const std::int64_t border = data.train->next_border(static_cast<std::int64_t>(first), data.train->size());
    ASSERT_EQ(all[static_cast<std::size_t>(border)], ByteTokenizer::end_of_document);
    for (std::size_t i = first; i < static_cast<std::size_t>(border); ++i) ASSERT_NE(all[i], ByteTokenizer::end_of_document);
  }
}

TEST(Dataset, HoldsOutEveryNthFile) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c", "d", "e"}) folder.write(name, name);
  const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = 2}, 300);
  EXPECT_EQ(all_tokens(*data.train), (std::vector<std::int32_t>{'a', 256, 'c', 256, 'e', 256}));
  EXPECT_EQ(all_tokens(*data.held_out), (std::vector<std::int32_t>{'b', 256, 'd', 256}));
  EXPECT_EQ(data.train_files, 3);
  EXPECT_EQ(data.held_out_files, 2);
}

TEST(Dataset, TokenFilesEndTheirDocumentsAtSeparators) {
  const TemporaryFolder folder;
  folder.write("1.bin", tokens_of_16_bits({5, 9, 6, 7}));
  folder.write("2.bin", tokens_of_16_bits({9, 8}));
  folder.write("meta.pkl", "odd");
  const DataConfig config{.tokens = {folder.path().string()}, .separator = 9, .held_out = 0};
  const Dataset data = open_dataset(config, 10);
  EXPECT_EQ(all_tokens(*data.train), (std::vector<std::int32_t>{5, 9, 6, 7, 9, 8}));
  std::vector<std::int64_t> borders;
  for (std::int64_t i = data.train->next_border(0, 6); i < 6; i = data.train->next_border(i + 1, 6)) borders.push_back(i);
  EXPECT_EQ(borders, (std::vector<std::int64_t>{1, 3, 4, 5}));  // separators, and the ends of the files
}

TEST(Dataset, RefusesWhatIsNoData) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "none");
  folder.write("void/a", "");
  folder.write("text/a", "some text");
  const auto open = [&](const DataConfig& config, std::int64_t vocabulary) { return [=] { (void)open_dataset(config, vocabulary); }; };
  expect_error(open({}, 257), ExitCode::config, {"neither data.text nor data.tokens"});
  expect_error(open({.text = {"a"}, .tokens = {"b"}}, 257), ExitCode::config, {"both given"});
  expect_error(open({.text = {folder / "none"}}, 257), ExitCode::data, {"no files found"});
  expect_error(open({.text = {folder / "void"}}, 257), ExitCode::data, {"no tokens for training"});
  expect_error(open({.text = {folder / "text"}, .held_out = 1}, 257), ExitCode::data, {"no tokens for training"});
  expect_error(open({.text = {folder / "text"}}, 256), ExitCode::data, {"257 tokens", "vocabulary has 256"});
  expect_error(open({.text = {folder / "text"}, .suffixes = {".md"}}, 257), ExitCode::data, {"no files found"});
}

TEST(Dataset, FingerprintFollowsTheTokens) {
  const TemporaryFolder folder;
  for (int i = 0; i < 6; ++i) folder.write(std::to_string(i), "text");
  const auto fingerprint = [&](std::int64_t held_out) {
    return open_dataset({.text = {folder.path().string()}, .held_out = held_out}, 257).fingerprint;
  };
  EXPECT_EQ(fingerprint(3), fingerprint(3));
  EXPECT_NE(fingerprint(3), fingerprint(2));
}

}  // namespace
}  // namespace millrace::runtime
