#include "runtime/data/tokenizers/tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/data/tokenizers/byte_pairs.hpp"
#include "runtime/data/tokenizers/sentence_piece.hpp"
#include "runtime/data/tokenizers/tiktoken.hpp"
#include "runtime/data/tokenizers/tokenizer_json.hpp"
#include "runtime/io/file_system.hpp"
#include "tests/runtime/tokenize/ids_of.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/mixed_text.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::string golden = tests::source_path("tests/golden/tokenizers/");

std::string golden_text(const std::string& name) { return read_text_file(golden + name, 1 << 20, ExitCode::data); }

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

// -- the contract of a tokenizer
// ------------------------------------------------------------------------------------------------------------

TEST(OpenTokenizer, ByteVocabulary) {
  const auto tokenizer = open_tokenizer("byte");
  EXPECT_EQ(ids_of(*tokenizer, "a\xff"), (Ids{97, 255}));
  EXPECT_EQ(tokenizer->decode(Ids{104, 105, 256, 999, -1}), "hi");
  EXPECT_EQ(tokenizer->vocabulary(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokenizer->begin_of_document(), std::nullopt);
}

TEST(OpenTokenizer, TakesAFolderAndFindsFilesByNameAndContent) {
  const TemporaryFolder folder;
  folder.write("tokenizer.model", golden_text("sentence_bpe.model"));
  EXPECT_EQ(open_tokenizer(folder.path())->end_of_document(), 2);
  folder.write("tokenizer.json", golden_text("gpt2.json"));
  EXPECT_EQ(open_tokenizer(folder.path())->vocabulary(), open_tokenizer(golden + "gpt2.json")->vocabulary());
  const TemporaryFolder ranks;
  ranks.write("a_llama3.model", golden_text("small_llama3.tiktoken"));  // Llama 3 names its file tokenizer.model
  EXPECT_TRUE(open_tokenizer(ranks / "a_llama3.model")->begin_of_document().has_value());
  const TemporaryFolder empty;
  expect_error([&] { (void)open_tokenizer(empty.path()); }, ExitCode::data, {"no tokenizer found", "tokenizer.json"});
  expect_error([&] { (void)open_tokenizer(empty / "none.json"); }, ExitCode::data, {"none.json"});
  expect_error([&] { (void)open_tokenizer(empty.write("a.txt", "x")); }, ExitCode::data, {"a.txt", "not a tokenizer by its name"});
}

TEST(OpenTokenizer, ReadsTheOlderLayoutOfGpt2) {
  const TemporaryFolder folder;
  const auto json = nlohmann::ordered_json::parse(golden_text("gpt2.json"));
  auto vocabulary = json["model"]["vocab"];
  vocabulary["<|endoftext|>"] = 1400;
  folder.write("vocab.json", vocabulary.dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  folder.write("merges.txt", merges);
  const auto newer = open_tokenizer(golden + "gpt2.json");
  const std::string text = std::string(tests::mixed_text(20'000, 1, false)) + "it's 12 <|endoftext|>  end\n";
  for (const auto& path : {folder.path(), folder.path() / "vocab.json"}) {
    const auto older = open_tokenizer(path);
    EXPECT_EQ(older->vocabulary(), newer->vocabulary());
    EXPECT_EQ(older->end_of_document(), 1400);
    EXPECT_EQ(ids_of(*older, text), ids_of(*newer, text));
  }
  folder.write("config.json", R"({"model_type": "roberta"})");
  expect_error([&] { (void)open_tokenizer(folder.path()); }, ExitCode::data,
               {"of a model of type roberta, expected those of GPT2Tokenizer"});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(open_tokenizer(folder.path())->vocabulary(), newer->vocabulary());
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  expect_error([&] { (void)open_tokenizer(folder.path()); }, ExitCode::data, {"of Qwen2Tokenizer, expected those of GPT2Tokenizer"});
}

TEST(Tokenizers, SpecialTokensAreTextAndDecodeToNothing) {
  const auto tokenizer = open_tokenizer(golden + "gpt2.json");
  const Ids ids = ids_of(*tokenizer, "<|endoftext|>");
  EXPECT_GT(ids.size(), 1u);
  ASSERT_TRUE(tokenizer->end_of_document().has_value());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer->end_of_document()), 0);
  EXPECT_EQ(tokenizer->decode(ids), "<|endoftext|>");
  EXPECT_EQ(tokenizer->decode(Ids{*tokenizer->end_of_document(), 1 << 30, -5}), "");
}

TEST(Tokenizers, KnowWhatADocumentBeginsAndEndsWith) {
  const auto llama3 = open_tokenizer(golden + "llama3.json");
  EXPECT_EQ(llama3->begin_of_document(), llama3->vocabulary() - 2);
  EXPECT_EQ(llama3->end_of_document(), llama3->vocabulary() - 1);
  for (const char* name : {"llama2.json", "metaspace.json", "sentence_bpe.model"}) {
    EXPECT_EQ(open_tokenizer(golden + name)->begin_of_document(), 1) << name;
    EXPECT_EQ(open_tokenizer(golden + name)->end_of_document(), 2) << name;
  }
  EXPECT_EQ(open_tokenizer(golden + "small_cl100k.tiktoken")->end_of_document(), 1101);
  EXPECT_EQ(open_tokenizer(golden + "small_llama3.tiktoken")->begin_of_document(), 1100);
}

TEST(Tokenizers, AddedTokensThatAreNotSpecialAreFound) {
  const auto tokenizer = open_tokenizer(golden + "qwen2.json");
  const Ids call = ids_of(*tokenizer, "<tool_call>");
  ASSERT_EQ(call.size(), 1u);
  EXPECT_EQ(tokenizer->decode(call), "<tool_call>");
  const Ids around = ids_of(*tokenizer, "x<tool_call>y</tool_call>");
  EXPECT_EQ(std::count(around.begin(), around.end(), call.front()), 1);
  EXPECT_EQ(ids_of(*tokenizer, "e\u0302\u0301").size(), 1u);  // U+1EBF, by normalisation
}

TEST(Tokenizers, BytesThatAreNoUtf8AreEncodedThemselves) {
  for (const char* name : {"gpt2.json", "qwen2.json", "llama2.json", "sentence_bpe.model", "small_o200k.tiktoken"}) {
    const auto tokenizer = open_tokenizer(golden + name);
    for (const std::string text : {"\xff", "a\xff", "a b\xc3(\xa0\xa1 c", "\xed\xa0\x80\xf5z", "\xe4\xb8"}) {
      EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, text)), text) << name;
    }
  }
}

TEST(Tokenizers, NothingIsNothing) {
  for (const char* name : {"gpt2_prefix_space.json", "llama2.json", "metaspace.json", "sentence_bpe.model", "small_r50k.tiktoken"}) {
    EXPECT_TRUE(ids_of(*open_tokenizer(golden + name), "").empty()) << name;
  }
}

TEST(Tokenizers, TheRestOfATextGetsNoSpaceBeforeIt) {
  for (const char* name : {"gpt2_prefix_space.json", "llama2.json", "metaspace.json", "sentence_bpe.model", "sentence_unigram.model"}) {
    const auto tokenizer = open_tokenizer(golden + name);
    Ids parts = ids_of(*tokenizer, "one\n");
    tokenizer->encode_rest("two", parts);
    EXPECT_EQ(parts, ids_of(*tokenizer, "one\ntwo")) << name;
  }
}

TEST(Tokenizers, ServeSeveralThreadsAtOnce) {
  const auto tokenizer = open_tokenizer(golden + "llama3.json");
  const std::string text = tests::mixed_text(20000, 7, true);
  const Ids wanted = ids_of(*tokenizer, text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { tokenizer->encode(text, ids); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, wanted);
}

// One piece of a quarter of a megabyte: quadratic merging would take minutes.
TEST(Tokenizers, LongPiecesTakeNoLongTime) {
  for (const char* name : {"gpt2.json", "llama2.json", "small_cl100k.tiktoken"}) {
    const auto tokenizer = open_tokenizer(golden + name);
    for (const std::string unit : {"a", "\u4e00", "ab"}) {
      std::string text;
      while (text.size() < (unit == "a" ? 1 << 18 : 1 << 15)) text += unit;
      EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, text)), text) << name;
    }
  }
}

// -- merging ------------------------------------------------------------------------------------------------------------------------------

TEST(BytePairs, FewAndManyPiecesMergeAlike) {
  BytePairs pairs(64);
  std::int32_t made = 4;
  for (std::int32_t left = 0; left < 4; ++left) {
    for (std::int32_t right = 0; right < 4; ++right) EXPECT_TRUE(pairs.add(left, right, (left * 7 + right * 5) % 16, made++));
  }
  for (std::int32_t i = 4; i < 20; ++i) EXPECT_TRUE(pairs.add(i, (i * 3) % 20, 16 + i, made++));
  EXPECT_FALSE(pairs.add(0, 0, 99, 99));
  // The simplest algorithm: search for the lowest rank from the left, again and again, and merge two pieces at a time.
  std::uint64_t state = 1;
  BytePairs::Scratch scratch;
  for (int round = 0; round < 200; ++round) {
    Ids pieces(static_cast<std::size_t>(round % 33));
    for (auto& piece : pieces) piece = static_cast<std::int32_t>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 62);
    Ids few = pieces;
    few.resize(pairs.merge(few, scratch));
    // The same pieces between pieces that nothing merges with, so that the other algorithm is used.
    Ids many(40, 1000);
    many.insert(many.end(), pieces.begin(), pieces.end());
    many.resize(pairs.merge(many, scratch));
    ASSERT_EQ(Ids(many.begin() + 40, many.end()), few) << round;
  }
}

// -- hostile and unsupported files --------------------------------------------------------------------------------------------------------

void expect_refused(const std::string& json, const std::vector<std::string>& parts) {
  auto all = parts;
  all.emplace_back("t.json");
  expect_error([&] { (void)read_tokenizer_json(json, "t.json"); }, ExitCode::data, all);
}

TEST(TokenizerJson, RefusesByNameWhatIsNotSupported) {
  const std::string good = golden_text("gpt2.json");
  EXPECT_NO_THROW((void)read_tokenizer_json(good, "t.json"));
  expect_refused(replaced(good, "\"normalizer\":null", R"("normalizer":{"type":"NFKC"})"), {"normalizer.type", "NFKC", "NFC"});
  expect_refused(replaced(good, "\"normalizer\":null", R"("normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"b"})"),
                 {"normalizer", "Replace"});
  expect_refused(replaced(good, "\"type\":\"BPE\"", "\"type\":\"WordPiece\""), {"model.type", "WordPiece", "BPE", "tokenizer.model"});
  expect_refused(replaced(good, "\"dropout\":null", "\"dropout\":0.1"), {"model.dropout", "0.1"});
  expect_refused(replaced(good, "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\""), {"end_of_word_suffix"});
  expect_refused(replaced(good, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"", "\"pre_tokenizer\":{\"type\":\"Whitespace\""),
                 {"pre_tokenizer.type", "Whitespace"});
  expect_refused(replaced(good, "\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"WordPiece\""), {"decoder.type"});
  expect_refused(replaced(good, "\"post_processor\":{\"type\":\"ByteLevel\"", "\"post_processor\":{\"type\":\"BertProcessing\""),
                 {"post_processor.type", "BertProcessing"});
  expect_refused(replaced(good, "\"normalizer\":null", "\"surprise\":1,\"normalizer\":null"), {"surprise", "not supported"});
  expect_refused(replaced(golden_text("llama3.json"), "\"Isolated\"", "\"Removed\""), {"pretokenizers[0].behavior", "Removed"});
  expect_refused(replaced(golden_text("llama2.json"), "\"byte_fallback\":true", "\"byte_fallback\":false"),
                 {"byte_fallback", "tokenizer.model"});
}

// A special token is plain text; other added tokens are found wherever they occur, even one of a single byte.
TEST(TokenizerJson, FindsAddedTokensOfAnyLength) {
  const auto ids = [](const std::string& id, const std::string& content, std::string_view text) {
    const auto token = R"("added_tokens":[{"id":)" + id + R"(,"content":")" + content +
                       R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false},)";
    return ids_of(*read_tokenizer_json(replaced(golden_text("gpt2.json"), "\"added_tokens\":[", token), "t.json"), text);
  };
  const auto plain = open_tokenizer(golden + "gpt2.json");
  const auto joined = [&](const std::vector<std::string_view>& parts, std::int32_t between) {
    Ids all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) all.push_back(between);
      plain->encode(parts[i], all);
    }
    return all;
  };
  EXPECT_EQ(ids("93", "~", "one~two~~ three~"), joined({"one", "two", "", " three", ""}, 93));
  EXPECT_EQ(ids("93", "~", "~"), Ids{93});
  EXPECT_EQ(ids("1401", "<two words>", "<two words> of <two words>text"), joined({"", " of ", "text"}, 1401));
  EXPECT_EQ(ids("1401", "<two words>", "<two words"), ids_of(*plain, "<two words"));
}

TEST(TokenizerJson, MetaspacePrependsWhereNothingIsSaid) {
  const std::string once = golden_text("metaspace.json");
  const auto prepends = [&](const std::string& words) {
    const auto tokenizer = read_tokenizer_json(replaced(once, R"(,"prepend_scheme":"first","split":true)", words), "t.json");
    return ids_of(*tokenizer, "one") == ids_of(*tokenizer, " one");
  };
  EXPECT_TRUE(prepends(""));
  EXPECT_TRUE(prepends(R"(,"add_prefix_space":true)"));
  EXPECT_FALSE(prepends(R"(,"add_prefix_space":false)"));
  EXPECT_TRUE(prepends(R"(,"prepend_scheme":"always")"));
  EXPECT_TRUE(prepends(R"(,"prepend_scheme":"first")"));
  EXPECT_FALSE(prepends(R"(,"prepend_scheme":"never")"));
  expect_error([&] { (void)prepends(R"(,"prepend_scheme":"often")"); }, ExitCode::data,
               {"prepend_scheme", "often", "always, first or never"});
}

TEST(TokenizerJson, RefusesDamage) {
  const std::string good = golden_text("gpt2.json");
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, good.size() / 3, good.size() / 2, good.size() - 1}) {
    expect_refused(good.substr(0, size), {"not JSON"});
  }
  expect_refused(std::string(100000, '['), {"deeper"});
  expect_refused("[]", {"object"});
  expect_refused("{}", {"model is missing"});
  expect_refused(replaced(good, "\"vocab\":{", "\"vocab\":[],\"x\":{"), {"model"});
  expect_refused(replaced(good, "\"!\":", "\"!!!!\":"), {"two pieces of the vocabulary", "!"});
  expect_refused(replaced(good, "\"!\":0", "\"!\":-1"), {"model.vocab", "-1"});
  expect_refused(replaced(good, "\"!\":0", "\"!\":0.5"), {"model.vocab", "0.5"});
  expect_refused(replaced(good, "\"!\":0", "\"!\":99999999999999999999"), {"model.vocab"});
  // must not allocate memory for it
  expect_refused(replaced(good, "\"!\":0", "\"!\":2000000000"), {"model.vocab", "2000000000", "from 0 to"});
  expect_refused(replaced(good, "\"!\":0", "\"!\":1"), {"id 1 is assigned twice"});
  expect_refused(replaced(good, "\"!\":0", "\"!\":0,\"!\":0"), {"'!' appears twice"});
  expect_refused(replaced(good, "\"merges\":[", "\"merges\":[\"zz qq\","), {"model.merges[0]", "zz"});
  expect_refused(replaced(good, "\"merges\":[", "\"merges\":[\"onlyone\","), {"model.merges[0]"});
  expect_refused(replaced(good, "\"merges\":[", "\"merges\":[[\"a\"],"), {"model.merges[0]", "two pieces"});
  expect_refused(replaced(good, "\"merges\":[", "\"merges\":[7,"), {"model.merges[0]", "7"});
  const std::size_t first = good.find("\"merges\":[") + 10;
  const std::string pair = good.substr(first, good.find(',', first) - first + 1);
  expect_refused(replaced(good, "\"merges\":[", "\"merges\":[" + pair), {"model.merges[1]", "each pair once"});
  expect_refused(replaced(good, "\"content\":\"<|endoftext|>\"", "\"content\":\"\""), {"added_tokens[0].content"});
  expect_refused(replaced(good, "\"content\":\"<|endoftext|>\"", "\"content\":\"!\""), {"added_tokens[0].id"});
  expect_refused(replaced(golden_text("llama3.json"), "\"Regex\":\"", "\"Regex\":\"("), {"not understood"});
}

// Qwen's is the only published vocabulary in this form that normalises text.
TEST(Tiktoken, NormalisesWhereTheFamilyDoes) {
  const std::string pieces = golden_text("small_cl100k.tiktoken");
  const auto is_normalised = [&](const std::string& name) {
    const auto tokenizer = read_tiktoken(pieces, name, "f");
    return ids_of(*tokenizer, "e\u0301") == ids_of(*tokenizer, "\u00e9");
  };
  EXPECT_TRUE(is_normalised("qwen.tiktoken"));
  for (const char* name : {"cl100k", "o200k", "llama3", "r50k"}) EXPECT_FALSE(is_normalised(name)) << name;
}

TEST(Tiktoken, RefusesDamage) {
  const std::string good = golden_text("small_cl100k.tiktoken");
  const auto refused = [](const std::string& text, const std::string& name, const std::vector<std::string>& parts) {
    expect_error([&] { (void)read_tiktoken(text, name, "f"); }, ExitCode::data, parts);
  };
  refused(good, "other.tiktoken", {"1100 pieces", "cl100k"});
  refused("", "cl100k", {"byte 0x00"});
  refused("IQ== 0\nnonsense\n", "cl100k", {"f:2", "base64"});
  refused("IQ== 0\nIg== 99999999999999\n", "cl100k", {"f:2"});
  refused("IQ== 0\nIg== -1\n", "cl100k", {"f:2"});
  for (const char* letters : {"I!==", "I_==", "I-==", "IQ=A", "IQ", "IQ=", "===="})
    refused("IQ== 0\n" + std::string(letters) + " 1\n", "cl100k", {"f:2", "base64"});
  refused("IQ== 0\nIg== 5\n", "cl100k", {"rank 5"});
  refused("IQ== 0\nIg== 3\n", "cl100k", {"rank 3 in a file of 2 pieces"});  // one rank may be left out, so that 2 were possible
  refused("IQ== 0\nIg== 0\n", "cl100k", {"rank 0 appears twice"});
  refused("IQ== 0\nIQ== 1\n", "cl100k", {"rank 1 appears twice"});
  refused("IQ== 1\n", "cl100k", {"rank 0 has no piece"});
  refused(std::string(4000, 'A') + " 0\n", "cl100k", {"f:1"});
  refused(good.substr(0, 1000), "cl100k", {"f"});
  std::string many;
  for (int line = 0; line <= 1 << 22; ++line) many += "IQ== 0\n";
  refused(many, "cl100k", {"more than 4194304 pieces"});
}

TEST(SentencePieceModel, RefusesDamage) {
  const std::string good = golden_text("sentence_bpe.model");
  for (const std::string& bad :
       {std::string(), std::string("nonsense"), std::string(1000, '\xff'), good.substr(0, good.size() / 2), good.substr(5)}) {
    expect_error([&] { (void)read_sentence_piece(bad, "f.model"); }, ExitCode::data, {"f.model"});
  }
}

}  // namespace
}  // namespace millrace::runtime
