// The small tokenizers of tests/golden/tokenizers against the ids that their own libraries gave for 5 MiB of mixed text
// (tools/reference/train_tokenizers.py).

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "tests/runtime/tokenize/ids_of.hpp"
#include "tests/support/mixed_text.hpp"
#include "tests/support/paths.hpp"

namespace millrace::runtime {
namespace {

const std::string folder = tests::source_path("tests/golden/tokenizers/");

struct Expected {
  std::size_t count = 0;
  std::string hash;
  std::vector<std::int32_t> first;
};

const std::map<std::string, Expected>& expected() {
  static const auto read = [] {
    std::map<std::string, Expected> all;
    std::istringstream lines(read_text_file(folder + "expected.txt", 1 << 20, ExitCode::data));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      Expected entry;
      words >> name >> entry.count >> entry.hash;
      for (std::int32_t id = 0; words >> id;) entry.first.push_back(id);
      all[name] = entry;
    }
    return all;
  }();
  return read;
}

const std::string& text() {
  static const std::string made = tests::mixed_text(5 << 20, 2, false);
  return made;
}

const std::string& broken_text() {
  static const std::string made = tests::mixed_text(1 << 20, 3, true);
  return made;
}

/// Encodes every line as a text, without its line end.
std::vector<std::int32_t> ids_of_lines(const Tokenizer& tokenizer, std::string_view of) {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < of.size();) {
    const std::size_t end = std::min(of.find('\n', at), of.size());
    tokenizer.encode(of.substr(at, end - at), ids);
    at = end + 1;
  }
  return ids;
}

TEST(MixedText, IsTheReferences) {
  for (const auto& [name, made] : {std::pair{"text", &text()}, {"broken", &broken_text()}}) {
    EXPECT_EQ(made->size(), expected().at(name).count);
    EXPECT_EQ(hash_of(*made).hex(), expected().at(name).hash) << name;
  }
}

class Reference : public ::testing::TestWithParam<const char*> {};

TEST_P(Reference, HasTheSameIds) {
  const auto tokenizer = open_tokenizer(folder + GetParam());
  const bool by_line = std::string_view(GetParam()).starts_with("sentence");
  const auto ids = by_line ? ids_of_lines(*tokenizer, text()) : ids_of(*tokenizer, text());
  const Expected& wanted = expected().at(GetParam());
  const std::vector<std::int32_t> first(ids.begin(), ids.begin() + std::min<std::ptrdiff_t>(64, std::ssize(ids)));
  EXPECT_EQ(first, wanted.first);
  EXPECT_EQ(ids.size(), wanted.count);
  EXPECT_EQ(hash_of(std::as_bytes(std::span(ids))).hex(), wanted.hash);
  for (const std::int32_t id : ids) ASSERT_TRUE(id >= 0 && id < tokenizer->vocabulary()) << id;
}

/// The text that decoding gives for the ids of a text.
std::string round_trip(const std::string& name, std::string text_of) {
  if (name == "qwen2.json") {  // its text is in normalisation form C afterwards
    std::string normalized;
    append_nfc(text_of, normalized);
    return normalized;
  }
  if (name == "gpt2_prefix_space.json" && !text_of.starts_with(' ')) return " " + text_of;
  const bool own_space = name.starts_with("sentence") || name == "llama2.json" || name == "metaspace.json";
  for (std::size_t at = 0; own_space && (at = text_of.find("\u2581", at)) != std::string::npos;) text_of.replace(at, 3, " ");
  return text_of;
}

TEST_P(Reference, GivesTheTextBack) {
  const std::string name = GetParam();
  const auto tokenizer = open_tokenizer(folder + name);
  const std::size_t size = name.starts_with("sentence") ? std::size_t{1} << 18 : std::size_t{1} << 20;
  const std::string of = name == "qwen2.json" ? text().substr(0, text().find(' ', size)) : broken_text().substr(0, size);
  EXPECT_TRUE(tokenizer->decode(ids_of(*tokenizer, of)) == round_trip(name, of));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Reference,
                         testing::Values("gpt2.json", "gpt2_prefix_space.json", "llama3.json", "qwen2.json", "steps.json", "llama2.json",
                                         "metaspace.json", "sentence_bpe.model", "sentence_unigram.model", "small_cl100k.tiktoken",
                                         "small_o200k.tiktoken", "small_r50k.tiktoken", "small_llama3.tiktoken"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace millrace::runtime
