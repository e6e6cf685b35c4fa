#include "runtime/data/tokenizers/tokenize_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "runtime/data/token_file.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Ids = std::vector<std::int32_t>;
using Report = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;  // bytes, documents, tokens

constexpr std::int32_t begin = 900, end = 901;

/// The id of a byte is its value; that of the first byte of a text that continues a cut one is its value plus 300. Records its texts.
class NotingTokenizer final : public Tokenizer {
 public:
  explicit NotingTokenizer(bool has_ends = true) : has_ends_(has_ends) {}
  void encode(std::string_view text, Ids& ids) const override {
    EXPECT_TRUE(ids.empty()) << "ids of a part that was written already";
    sizes.push_back(text.size());
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
  void encode_rest(std::string_view text, Ids& ids) const override {
    encode(text, ids);
    ids[0] += 300;
  }
  std::string decode(std::span<const std::int32_t>) const override { return {}; }
  std::int64_t vocabulary() const noexcept override { return 902; }
  std::optional<std::int32_t> begin_of_document() const noexcept override { return has_ends_ ? std::optional(begin) : std::nullopt; }
  std::optional<std::int32_t> end_of_document() const noexcept override { return has_ends_ ? std::optional(end) : std::nullopt; }

  mutable std::vector<std::size_t> sizes;

 private:
  bool has_ends_;
};

struct Made {
  Ids ids;
  std::vector<Report> reports;
  std::int64_t documents = 0;
};

DataFile data_file(const std::string& path) { return {path, path, 0}; }

Made tokenize(const TemporaryFolder& folder, const std::vector<DataFile>& files, const TokenizeOptions& options,
              const Tokenizer& tokenizer = NotingTokenizer()) {
  Made made;
  const std::string path = folder / "made.llmc";
  TokenWriter writer(TokenTarget::llmc, path, tokenizer.vocabulary());
  tokenize_files(files, tokenizer, options, writer,
                 [&](const TokenizeProgress& progress) { made.reports.emplace_back(progress.bytes, progress.documents, progress.tokens); });
  made.documents = writer.documents();
  writer.finish();
  const TokenFile file(path, tokenizer.vocabulary());
  made.ids.resize(static_cast<std::size_t>(file.size()));
  file.read(0, made.ids);
  return made;
}

TEST(TokenizeFiles, AFileIsADocumentWithTheEndsThatAreAskedFor) {
  const TemporaryFolder folder;
  const std::vector<DataFile> files{data_file(folder.write("a.txt", "ab")), data_file(folder.write("b.txt", "c"))};
  EXPECT_EQ(tokenize(folder, files, {}).ids, (Ids{'a', 'b', end, 'c', end}));
  EXPECT_EQ(tokenize(folder, files, {.begin_of_document = true}).ids, (Ids{begin, 'a', 'b', end, begin, 'c', end}));
  EXPECT_EQ(tokenize(folder, files, {.begin_of_document = true, .end_of_document = false}).ids, (Ids{begin, 'a', 'b', begin, 'c'}));
  const Made made = tokenize(folder, files, {.end_of_document = false});
  EXPECT_EQ(made.ids, (Ids{'a', 'b', 'c'}));
  EXPECT_EQ(made.documents, 2);
}

TEST(TokenizeFiles, AnEmptyDocumentLeavesNothing) {
  const TemporaryFolder folder;
  const Made made =
      tokenize(folder, {data_file(folder.write("a.txt", "")), data_file(folder.write("b.txt", "c"))}, {.begin_of_document = true});
  EXPECT_EQ(made.ids, (Ids{begin, 'c', end}));
  EXPECT_EQ(made.documents, 1);
  EXPECT_EQ(made.reports, (std::vector<Report>{{0, 0, 0}, {1, 1, 3}}));
}

TEST(TokenizeFiles, RefusesEndsThatTheTokenizerLacks) {
  const TemporaryFolder folder;
  const std::vector<DataFile> files{data_file(folder.write("a.txt", "a"))};
  const NotingTokenizer endless(false);
  expect_error([&] { (void)tokenize(folder, files, {}, endless); }, ExitCode::data, {"no token that ends a document"});
  expect_error([&] { (void)tokenize(folder, files, {.begin_of_document = true, .end_of_document = false}, endless); }, ExitCode::data,
               {"no token that begins a document"});
  EXPECT_EQ(tokenize(folder, files, {.end_of_document = false}, endless).ids, Ids{'a'});
}

TEST(TokenizeFiles, EachLineOfJsonlIsADocument) {
  const TemporaryFolder folder;
  const std::string one = "{\"text\": \"ab\"}", two = "{\"id\": 1, \"text\": \"\"}", three = "{\"text\": \"c\"}";
  const std::string blank = " \t\r\n\n";
  for (const std::string last : {"", "\n"}) {
    const std::string text = one + "\n" + blank + two + "\r\n" + three + last;
    const Made made = tokenize(folder, {data_file(folder.write("a.jsonl", text))}, {.begin_of_document = true});
    EXPECT_EQ(made.ids, (Ids{begin, 'a', 'b', end, begin, 'c', end}));
    EXPECT_EQ(made.documents, 2);
    const std::uint64_t first = one.size() + 1, second = first + blank.size() + two.size() + 2, all = text.size();
    EXPECT_EQ(made.reports, (std::vector<Report>{{first, 1, 4}, {second, 1, 4}, {all, 2, 7}, {all, 2, 7}}));
  }
}

TEST(TokenizeFiles, OtherFilesAreNoJsonl) {
  const TemporaryFolder folder;
  const std::string text = "{}\n";
  EXPECT_EQ(tokenize(folder, {data_file(folder.write("a.json", text))}, {}).ids, (Ids{'{', '}', '\n', end}));
}

TEST(TokenizeFiles, ProgressCountsTheBytesOfAllFiles) {
  const TemporaryFolder folder;
  const std::string line = "{\"body\": \"xy\"}\n";
  const Made made = tokenize(
      folder,
      {data_file(folder.write("a.txt", "abc")), data_file(folder.write("b.jsonl", line + line)), data_file(folder.write("c.txt", "d"))},
      {.text_key = "body"});
  const auto size = line.size();
  EXPECT_EQ(made.reports,
            (std::vector<Report>{{3, 1, 4}, {3 + size, 2, 7}, {3 + 2 * size, 3, 10}, {3 + 2 * size, 3, 10}, {4 + 2 * size, 4, 12}}));
}

TEST(TokenizeFiles, NamesTheLineThatIsNoDocument) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, const std::vector<std::string>& parts) {
    const std::vector<DataFile> files{data_file(folder.write("a.jsonl", text))};
    expect_error([&] { (void)tokenize(folder, files, {}); }, ExitCode::data, parts);
  };
  const std::string good = "{\"text\": \"a\"}\n";
  refuse(good + "\n" + good + "{\"txt\": \"a\"}\n", {"a.jsonl:4", "text is missing"});
  refuse(good + "{\"text\": 7}", {"a.jsonl:2"});
  refuse("[1]\n" + good, {"a.jsonl:1"});
  refuse("{\"text\": \"a\"} {}", {"a.jsonl:1"});
  const auto deep = [](std::size_t levels) {
    return "{\"text\": \"a\", \"more\": " + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  refuse(good + deep(64), {"a.jsonl:2"});
  EXPECT_EQ(tokenize(folder, {data_file(folder.write("a.jsonl", deep(63)))}, {}).ids, (Ids{'a', end}));
}

// A long text is encoded in parts of about 1 MiB, of which all but the first go on; its document has its ends once.
TEST(TokenizeFiles, ALongTextIsReadPartByPart) {
  const TemporaryFolder folder;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::string text;
  while (text.size() < 2 * mebibyte + 1000) text += "a line of text\n";
  const NotingTokenizer tokenizer;
  const Made made = tokenize(folder, {data_file(folder.write("a.txt", "x")), data_file(folder.write("b.txt", text))},
                             {.begin_of_document = true}, tokenizer);
  ASSERT_EQ(tokenizer.sizes.size(), 4U);  // the first file, and three parts
  std::size_t at = 0;
  Ids wanted{begin, 'x', end, begin};
  for (std::size_t part = 1; part < 4; ++part) {
    if (part < 3) {
      EXPECT_GE(tokenizer.sizes[part], mebibyte);
      EXPECT_LT(tokenizer.sizes[part], mebibyte + 32);
    }
    for (std::size_t i = 0; i < tokenizer.sizes[part]; ++i) wanted.push_back(text[at + i] + (part > 1 && i == 0 ? 300 : 0));
    at += tokenizer.sizes[part];
    if (part < 3) {
      const auto tokens = static_cast<std::int64_t>(at) + 4;
      EXPECT_EQ(made.reports.at(part), (Report{1 + at, 1, tokens}));
    }
  }
  wanted.push_back(end);
  EXPECT_EQ(at, text.size());
  EXPECT_EQ(made.ids, wanted);
  EXPECT_EQ(made.documents, 2);
  ASSERT_EQ(made.reports.size(), 4U);
  EXPECT_EQ(made.reports[3], (Report{1 + text.size(), 2, static_cast<std::int64_t>(text.size()) + 5}));
}

// In a line of .jsonl the parts' bytes are no bytes of the file, so that only whole lines count.
TEST(TokenizeFiles, ALongLineIsReportedOnce) {
  const TemporaryFolder folder;
  std::string line = "{\"text\": \"";
  while (line.size() < (std::size_t{1} << 20) + 1000) line += "a line\\n";
  line += "\"}\n";
  const NotingTokenizer tokenizer;
  const Made made = tokenize(folder, {data_file(folder.write("a.jsonl", line))}, {}, tokenizer);
  EXPECT_EQ(made.documents, 1);
  ASSERT_EQ(made.reports.size(), 2U);
  EXPECT_EQ(std::get<0>(made.reports[0]), line.size());
}

}  // namespace
}  // namespace millrace::runtime
