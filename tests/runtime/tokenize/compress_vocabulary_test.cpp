#include "runtime/data/tokenizers/compress_vocabulary.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/io/safetensors.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::string tiny_model = tests::source_path("tests/golden/maxtext_deepseek_engram/");
const std::string tokenizers = tests::source_path("tests/golden/tokenizers/");

TEST(CompressVocabulary, HasTheTableOfMaxText) {
  const TokenCompression compression = compress_vocabulary(tiny_model);
  const SafetensorsFile golden(tiny_model + "golden.safetensors");
  Ids expected(80);
  golden.read_bytes(golden.at("engram.lookup_table"), 0, std::as_writable_bytes(std::span(expected)));
  EXPECT_EQ(compression.ids, expected);
  EXPECT_EQ(compression.vocabulary, 43);
  EXPECT_EQ(compression.padding, 0);
}

/// The results of Python's unicodedata, step by step.
TEST(CompressVocabulary, KeysIgnoreCaseMarksAndSpaces) {
  for (const auto& [text, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {" The", "the"},
           {"\u00c9t\u00e9", "ete"},          // É, é
           {"e\u0301", "e"},                  // e and a combining acute
           {"\uff21\uff22\uff11", "ab1"},     // fullwidth letters and digit
           {"stra\u00dfe", "stra\u00dfe"},    // ß has no decomposition, and is lower case
           {"\u0130", "i"},                   // İ is an I with a mark
           {"\ufb01n", "fin"},                // a ligature
           {"\u0e01\u0e33", "\u0e01\u0e32"},  // Thai: sara am becomes a mark and sara aa
           {"\u0915\u093e", "\u0915"},        // Devanagari: a spacing mark
           {"\u03a3\u03a3", "\u03c3\u03c3"},  // sigma has no other form at the end
           {"\ufdfa", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064a\u0647 \u0648\u0633\u0644\u0645"},
           {"\ud55c", "\u1112\u1161\u11ab"},  // Hangul, decomposed
           {"a \t\r\n b", "a b"},
           {"\u00a0a\u3000", "a"},  // other white space is trimmed
           {" ", " "},
           {" \t\n ", " "},
           {"\n\n", " "},
           {"\u2003", " "},       // an em space is a space by compatibility
           {"\u0301", "\u0301"},  // nothing is left: the text itself
           {"\u2028", "\u2028"},
           {"", ""},
           {"a\ue000b\ue000", "a b "}})
    EXPECT_EQ(compression_key(text), key) << text;
}

/// A vocabulary over bytes with these pieces behind the special tokens <pad> and <s>.
std::string tokenizer_with(const std::vector<std::string>& pieces) {
  std::string vocabulary = R"("<pad>": 0, "<s>": 1)";
  for (std::size_t i = 0; i < pieces.size(); ++i) vocabulary += fmt::format(R"(, "{}": {})", pieces[i], i + 2);
  const auto special = [](int id, const char* content) {
    return fmt::format(R"({{"id": {}, "content": "{}", "special": true, "normalized": false}})", id, content);
  };
  return fmt::format(
      R"({{"added_tokens": [{}, {}], "normalizer": null, "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false,
          "use_regex": true}}, "post_processor": null, "decoder": {{"type": "ByteLevel"}}, "model": {{"type": "BPE", "vocab": {{{}}},
          "merges": []}}}})",
      special(0, "<pad>"), special(1, "<s>"), vocabulary);
}

/// Ã and ł are two bytes that are no text by themselves: their pieces differ. So do <s> and its upper case not.
TEST(CompressVocabulary, TokensWithoutTextAreTheirPieces) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_with({"\u00c3", "\u0142", "a", "A", "\u0120a", "\u0120", "<S>"}));
  folder.write("tokenizer_config.json", R"({"pad_token": {"content": "<pad>"}})");
  const TokenCompression compression = compress_vocabulary(folder.path());
  EXPECT_EQ(compression.ids, (Ids{0, 1, 2, 3, 4, 4, 4, 5, 1}));
  EXPECT_EQ(compression.vocabulary, 6);
  EXPECT_EQ(compression.padding, 0);
  EXPECT_EQ(compress_vocabulary(folder / "tokenizer.json"), compression);
}

TEST(CompressVocabulary, FindsThePaddingToken) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_with({"a"}));
  expect_error([&] { (void)compress_vocabulary(folder.path()); }, ExitCode::data, {"no padding token", "tokenizer_config.json"});
  folder.write("special_tokens_map.json", R"({"pad_token": "<s>"})");
  EXPECT_EQ(compress_vocabulary(folder.path()).padding, 1);
  folder.write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  EXPECT_EQ(compress_vocabulary(folder.path()).padding, 0);
  folder.write("tokenizer_config.json", R"({"pad_token": "[PAD]"})");
  expect_error([&] { (void)compress_vocabulary(folder.path()); }, ExitCode::data, {"tokenizer_config.json", "[PAD]"});
  folder.write("tokenizer_config.json", R"({"pad_token": 3})");
  expect_error([&] { (void)compress_vocabulary(folder.path()); }, ExitCode::data, {"tokenizer_config.json", "pad_token"});
  folder.write("tokenizer_config.json", R"({"pad_token": null})");
  EXPECT_EQ(compress_vocabulary(folder.path()).padding, 1);
}

TEST(CompressVocabulary, JoinsLettersOfTheByteVocabulary) {
  const TokenCompression compression = compress_vocabulary("byte");
  ASSERT_EQ(compression.ids.size(), 257U);
  EXPECT_EQ(compression.ids['A'], compression.ids['a']);
  EXPECT_EQ(compression.ids['\t'], compression.ids[' ']);
  EXPECT_NE(compression.ids[0xc3], compression.ids[0xe2]);
  EXPECT_EQ(compression.padding, compression.ids[256]);
  Ids counts(static_cast<std::size_t>(compression.vocabulary));
  for (const std::int32_t id : compression.ids) ++counts.at(static_cast<std::size_t>(id));
  EXPECT_EQ(*std::ranges::min_element(counts), 1);
}

TEST(CompressVocabulary, SpellsPiecesOfSentencePiece) {
  const auto tokenizer = open_tokenizer(tokenizers + "sentence_bpe.model");
  EXPECT_EQ(tokenizer->spelling(1).text, "<s>");
  EXPECT_EQ(tokenizer->spelling(2).text, "</s>");
  const std::int64_t vocabulary = tokenizer->vocabulary();
  int bytes = 0;
  for (std::int32_t id = 0; id < vocabulary; ++id)
    if (!tokenizer->spelling(id).readable) {
      EXPECT_EQ(tokenizer->spelling(id).text.substr(0, 3), "<0x");
      ++bytes;
    }
  EXPECT_EQ(bytes, 128);
}

/// A text with a byte that the vocabulary lacks cannot be encoded, and another one can.
TEST(CompressVocabulary, ATokenizerMayLackBytes) {
  const auto tokenizer = open_tokenizer(tiny_model);
  Ids ids;
  tokenizer->encode("ab", ids);
  EXPECT_EQ(tokenizer->decode(ids), "ab");
  expect_error([&] { tokenizer->encode("a~", ids); }, ExitCode::data, {"tokenizer.json", "0x7e"});
}

TEST(TokenCompression, CompressesAndRefuses) {
  const TokenCompression compression{.ids = {0, 1, 1, 2}, .vocabulary = 3, .padding = 2};
  Ids found(5);
  compression.compress(Ids{3, 2, 1, 0, -7}, found);
  EXPECT_EQ(found, (Ids{2, 1, 1, 0, -7}));
  expect_error([&] { compression.compress(Ids{0, 4, 0, 0, 0}, found); }, ExitCode::data, {"token 4", "4 tokens"});
}

TEST(TokenCompression, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  const TokenCompression compression{.ids = {0, 1, 1, 2}, .vocabulary = 3, .padding = 2};
  const std::string path = folder / "table.safetensors";
  write_token_compression(path, compression);
  EXPECT_EQ(read_token_compression(path), compression);
}

TEST(TokenCompression, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "table.safetensors";
  const Ids ids{0, 1, 2};
  const auto refused = [&](const char* name, FileDType dtype, std::vector<std::int64_t> shape, const Metadata& metadata,
                           std::vector<std::string> says) {
    const TensorToWrite table{.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = std::as_bytes(std::span(ids))};
    write_safetensors(path, std::span(&table, 1), metadata);
    says.push_back("table.safetensors");
    expect_error([&] { (void)read_token_compression(path); }, ExitCode::data, says);
  };
  const Metadata good{{"compressed_vocab_size", "3"}, {"compressed_pad_id", "0"}};
  refused("table", FileDType::i32, {3}, good, {"no tensor lookup_table"});
  refused("lookup_table", FileDType::f32, {3}, good, {"F32", "I32"});
  refused("lookup_table", FileDType::i32, {3, 1}, good, {"[3, 1]"});
  refused("lookup_table", FileDType::i32, {3}, {{"compressed_pad_id", "0"}}, {"compressed_vocab_size is missing"});
  refused("lookup_table", FileDType::i32, {3}, {{"compressed_vocab_size", "3"}, {"compressed_pad_id", "3"}},
          {"compressed_pad_id", "0 to 2"});
  refused("lookup_table", FileDType::i32, {3}, {{"compressed_vocab_size", "2"}, {"compressed_pad_id", "0"}}, {"token 2", "0 to 1"});
  refused("lookup_table", FileDType::i32, {3}, {{"compressed_vocab_size", "three"}, {"compressed_pad_id", "0"}}, {"\"three\""});
  folder.write("none.safetensors", "x");
  expect_error([&] { (void)read_token_compression(folder / "none.safetensors"); }, ExitCode::data, {"none.safetensors"});
}

}  // namespace
}  // namespace millrace::runtime
