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
  EXPECT_EQ(all_tokens(*data.sources.front().stream), (std::vector<std::int32_t>{'h', 'i', 256, 255, 256}));
  EXPECT_EQ(data.held_out, nullptr);
  EXPECT_EQ(data.sources.front().stream->next_border(0, 5), 2);
  EXPECT_EQ(data.sources.front().stream->next_border(2, 5), 2);
  EXPECT_EQ(data.sources.front().stream->next_border(3, 5), 4);
  EXPECT_EQ(data.sources.front().stream->next_border(3, 4), 4);
  EXPECT_EQ(data.sources.front().stream->next_border(5, 5), 5);
}

TEST(Dataset, TextIsReadFromAnyTokenOn) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i)
    folder.write(std::to_string(100 + i), std::string(static_cast<std::size_t>(1 + i * 3 % 7), static_cast<char>('a' + i)));
  const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = 0}, 257);
  const auto all = all_tokens(*data.sources.front().stream);
  for (std::size_t first = 0; first < all.size(); ++first) {
    std::vector<std::int32_t> part(all.size() - first);
    data.sources.front().stream->read(static_cast<std::int64_t>(first), part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
    const std::int64_t border =
        data.sources.front().stream->next_border(static_cast<std::int64_t>(first), data.sources.front().stream->size());
    ASSERT_EQ(all[static_cast<std::size_t>(border)], ByteTokenizer::end_of_document);
    for (std::size_t i = first; i < static_cast<std::size_t>(border); ++i) ASSERT_NE(all[i], ByteTokenizer::end_of_document);
  }
}

TEST(Dataset, HoldsOutEveryNthFile) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c", "d", "e"}) folder.write(name, name);
  const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = 2}, 300);
  EXPECT_EQ(all_tokens(*data.sources.front().stream), (std::vector<std::int32_t>{'a', 256, 'c', 256, 'e', 256}));
  EXPECT_EQ(all_tokens(*data.held_out), (std::vector<std::int32_t>{'b', 256, 'd', 256}));
  EXPECT_EQ(data.train_files, 3);
  EXPECT_EQ(data.held_out_files, 2);
}

TEST(Dataset, HoldsOutTheLastPartOfASingleText) {
  const TemporaryFolder folder;
  std::string text(59, '.');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('0' + i);
  const DataConfig config{.text = {folder.write("only", text)}, .held_out = 10};
  const Dataset data = open_dataset(config, 257);
  ASSERT_NE(data.held_out, nullptr);
  auto all = all_tokens(*data.sources.front().stream);
  EXPECT_EQ(all.size(), 54U);  // 59 bytes and the end of the document, of which one part is held out
  const auto last = all_tokens(*data.held_out);
  all.insert(all.end(), last.begin(), last.end());
  EXPECT_EQ(all, all_tokens(*open_dataset({.text = config.text, .held_out = 0}, 257).sources.front().stream));
  EXPECT_EQ(data.held_out->next_border(0, 6), 5) << "the document ends with the part";
  EXPECT_EQ(data.held_out_text, "the last 6 tokens of 60 (10.0 %), cut in its only document");
  EXPECT_TRUE(data.fingerprint.ends_with("-54-6")) << data.fingerprint;
}

TEST(Dataset, HoldsOutWholeDocumentsOfASingleTokenFile) {
  struct Case {
    std::vector<std::int64_t> lengths;  // lengths of the documents, including their separators
    std::int64_t every, held;
    std::string text;
  };
  const TemporaryFolder folder;
  const std::vector<Case> cases = {
      {std::vector<std::int64_t>(20, 10), 10, 20, "the last 20 tokens of 200 (10.0 %), from the beginning of a document"},
      {{50, 50, 50, 27, 13, 10}, 10, 23, "(11.5 %)"},  // nearer than the border at 10
      {{100, 50, 41, 9}, 10, 9, "(4.5 %)"},            // nearer than the border at 50
      {{9000, 700, 300}, 2, 1000, "(10.0 %)"},         // half of the tokens lie in the first document
      {{40, 60, 100}, 10, 100, "(50.0 %)"},            // at most half
      {{40, 60, 101}, 10, 0, "nothing of the only file: to hold out one in 10 of its tokens, a document of 101 of 201 tokens would"},
      {{199, 1}, 10, 0, "a document of 199 of 200 tokens would have to be split"},  // the last document has no target
      {{200}, 10, 20, "cut in its only document"},
      {{19}, 10, 0, "its 19 tokens are too few to hold out one in 10"},
  };
  for (const Case& c : cases) {
    std::vector<std::uint16_t> tokens;
    for (const auto length : c.lengths) {
      tokens.insert(tokens.end(), static_cast<std::size_t>(length), 5);
      tokens.back() = 9;
    }
    const DataConfig config{.tokens = {folder.write("only.bin", tokens_of_16_bits(tokens))}, .separator = 9, .held_out = c.every};
    const Dataset data = open_dataset(config, 10);
    EXPECT_EQ(data.held_out ? data.held_out->size() : 0, c.held) << data.held_out_text;
    EXPECT_NE(data.held_out_text.find(c.text), std::string::npos) << data.held_out_text;
    EXPECT_EQ(data.sources.front().stream->size(), static_cast<std::int64_t>(tokens.size()) - c.held);
    if (c.held > 0 && c.lengths.size() > 1) {
      EXPECT_EQ(all_tokens(*data.sources.front().stream).back(), 9) << "no document is split";
    }
  }
  // Without a separator there are no documents.
  const Dataset data = open_dataset({.tokens = {folder.write("only.bin", tokens_of_16_bits({1, 2, 3, 4}))}, .held_out = 2}, 10);
  EXPECT_EQ(all_tokens(*data.held_out), (std::vector<std::int32_t>{3, 4}));
}

TEST(Dataset, FilesWithoutOneToHoldOutSayWhy) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) folder.write(name, name);
  const auto text_of = [&](std::int64_t held_out) {
    const Dataset data = open_dataset({.text = {folder.path().string()}, .held_out = held_out}, 257);
    EXPECT_EQ(data.held_out, nullptr);
    return data.held_out_text;
  };
  EXPECT_EQ(text_of(10), "nothing: data.held_out = 10 takes every 10th file, but there are only 3");
  EXPECT_EQ(text_of(0), "nothing (data.held_out = 0)");
  folder.write("c", "");
  EXPECT_EQ(text_of(3), "nothing: 0 tokens in 1 held-out file");
}

TEST(Dataset, TokenFilesEndTheirDocumentsAtSeparators) {
  const TemporaryFolder folder;
  folder.write("1.bin", tokens_of_16_bits({5, 9, 6, 7}));
  folder.write("2.bin", tokens_of_16_bits({9, 8}));
  folder.write("meta.pkl", "odd");
  const DataConfig config{.tokens = {folder.path().string()}, .separator = 9, .held_out = 0};
  const Dataset data = open_dataset(config, 10);
  EXPECT_EQ(all_tokens(*data.sources.front().stream), (std::vector<std::int32_t>{5, 9, 6, 7, 9, 8}));
  std::vector<std::int64_t> borders;
  for (std::int64_t i = data.sources.front().stream->next_border(0, 6); i < 6; i = data.sources.front().stream->next_border(i + 1, 6))
    borders.push_back(i);
  EXPECT_EQ(borders, (std::vector<std::int64_t>{1, 3, 4, 5}));  // the separators, and the ends of the files
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

TEST(Dataset, EvaluatesOnValidationDataAndTrainsOnAllOthers) {
  const TemporaryFolder folder;
  for (const char* name : {"text/a", "text/b", "text/c", "held/x", "held/y"}) folder.write(name, name);
  const DataConfig config{.text = {folder / "text"}, .validation = {folder / "held"}, .held_out = 10};
  const Dataset data = open_dataset(config, 257);
  EXPECT_EQ(data.train_files, 3);
  EXPECT_EQ(data.held_out_files, 2);
  EXPECT_TRUE(data.validation);
  EXPECT_EQ(data.held_out->size(), 14);
  EXPECT_EQ(data.files.size(), 5U) << "the content of all files is part of the run's identity";
  EXPECT_TRUE(data.held_out_text.starts_with("2 files with 14 tokens: ")) << data.held_out_text;
  // A file of the training folder: it is not trained on.
  const Dataset within = open_dataset({.text = {folder / "text"}, .validation = {folder / "text/b"}}, 257);
  EXPECT_EQ(within.train_files, 2);
  EXPECT_EQ(within.train_tokens(), 14);
  EXPECT_NE(within.held_out_text.find("(1 of them in folders of training data, and not trained on)"), std::string::npos);
  EXPECT_NE(data.fingerprint, within.fingerprint);
  EXPECT_TRUE(within.fingerprint.ends_with("-14-7")) << within.fingerprint;
}

TEST(Dataset, RefusesWhatIsNoValidationData) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.bin", tokens_of_16_bits({1, 2, 3, 4})),
             other = folder.write("other.bin", tokens_of_16_bits({1, 12}));
  std::string wide(1024 + 8, '\0');
  const std::int32_t header[] = {20240801, 7, 2};
  std::memcpy(wide.data(), header, sizeof(header));
  folder.write("wide.bin", wide);
  folder.write("odd.bin", "abc");
  std::filesystem::create_directories(folder / "none");
  const auto open = [&](const std::string& validation, std::int64_t vocabulary = 10) {
    return [=] { (void)open_dataset({.tokens = {train}, .validation = {validation}}, vocabulary); };
  };
  expect_error(open(folder / "none"), ExitCode::data, {"[data] data.validation: ", "/none: no files found"});
  expect_error(open(folder / "missing"), ExitCode::data, {"data.validation: ", "missing: no such file or folder"});
  expect_error(open(other), ExitCode::data, {"data.validation: ", "other.bin: token 1 is 12, the model's vocabulary has 10"});
  expect_error(open(folder / "odd.bin"), ExitCode::data, {"data.validation: ", "odd.bin: 3 bytes"});
  expect_error(open(folder / "wide.bin"), ExitCode::data,
               {"data.validation: ", "wide.bin has 32 bits per token, ", "train.bin has 16; expected files of one tokenizer"});
  expect_error(open(train), ExitCode::data, {"train.bin: named as training data by data.tokens and as validation data by data.validation"});
  const auto text = folder.write("text/a", "words");
  expect_error([&] { (void)open_dataset({.text = {folder / "text"}, .validation = {text}}, 257); }, ExitCode::data,
               {"text: nothing is left to train on: data.validation names all of 1 file"});
  const auto empty = folder.write("empty", "");
  expect_error([&] { (void)open_dataset({.text = {text}, .validation = {empty}}, 257); }, ExitCode::data,
               {"data.validation: 0 tokens in 1 file,"});
}

TEST(Dataset, NamesEveryFormatOfItsTokenFiles) {
  const TemporaryFolder folder;
  std::string header(1024, '\0');
  const std::int32_t words[] = {20240520, 1, 3};
  std::memcpy(header.data(), words, sizeof(words));
  folder.write("a.bin", std::string("\1\0\2\0\3\0", 6));
  folder.write("b.bin", header + std::string("\1\0\2\0\3\0", 6));
  folder.write("c.bin", std::string("\1\0\2\0", 4));
  EXPECT_EQ(open_dataset({.tokens = {folder / "a.bin", folder / "b.bin", folder / "c.bin"}, .held_out = 0}, 10).format,
            "no header, read as nanoGPT's: 16 bits per token and llm.c, 16 bits per token");
  EXPECT_EQ(open_dataset({.tokens = {folder / "b.bin"}, .held_out = 0}, 10).format, "llm.c, 16 bits per token");
}

TEST(Dataset, WeightsMakeSourcesOfTheEntries) {
  const TemporaryFolder folder;
  for (const char* name : {"web/1", "web/2", "web/3", "code/1"}) folder.write(name, std::string(40, 'x'));
  const DataConfig config{.text = {folder / "web", folder / "code"}, .weights = {0.3, 0.7}, .held_out = 3};
  const Dataset data = open_dataset(config, 257);
  ASSERT_EQ(data.sources.size(), 2U);
  EXPECT_EQ(data.sources[0].name, "web");
  EXPECT_EQ(data.sources[1].name, "code");
  EXPECT_EQ(data.sources[1].weight, 0.7);
  EXPECT_EQ(data.sources[0].files, 2);
  EXPECT_EQ(data.sources[0].stream->size(), 82);
  EXPECT_EQ(data.sources[1].stream->size(), 28);
  // Every source holds out a part of its own: a file of three, and the last third of the only one. Neither runs into the other.
  EXPECT_EQ(data.held_out->size(), 41 + 13);
  EXPECT_EQ(data.held_out->next_border(0, 54), 40);
  EXPECT_EQ(data.held_out->next_border(41, 54), 53);
  EXPECT_EQ(all_tokens(*data.held_out)[40], 256);
  EXPECT_EQ(data.held_out_text, "web: 1 file with 41 tokens; code: the last 13 tokens of 41 (31.7 %), cut in its only document");
  // Files of the same name are told apart.
  EXPECT_EQ(data.files.size(), 4U);
  EXPECT_NE(data.files.front().name, data.files.back().name);
  DataConfig turned = config;
  std::swap(turned.text[0], turned.text[1]);
  EXPECT_NE(open_dataset(turned, 257).fingerprint, data.fingerprint);
}

TEST(Dataset, AnErrorNamesTheSource) {
  const TemporaryFolder folder;
  const auto good = folder.write("good/train.bin", tokens_of_16_bits({1, 2})),
             bad = folder.write("bad/train.bin", tokens_of_16_bits({1, 99}));
  std::filesystem::create_directories(folder / "none");
  const auto open = [&](const std::vector<std::string>& tokens, const std::vector<double>& weights) {
    return [=] { (void)open_dataset({.tokens = tokens, .weights = weights, .held_out = 0}, 10); };
  };
  expect_error(open({good, bad}, {1, 2}), ExitCode::data, {"[data] source bad/train: ", "bad/train.bin: token 1 is 99"});
  expect_error(open({good, folder / "none"}, {1, 2}), ExitCode::data, {"[data] source none: data.tokens = ", "/none: no files found"});
  expect_error(open({good, folder / "good"}, {1, 2}), ExitCode::data, {"good/train.bin: a file of two sources, train and good"});
  expect_error(open({good, bad}, {1}), ExitCode::config, {"data.weights has 1 number, data.tokens has 2 entries"});
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
