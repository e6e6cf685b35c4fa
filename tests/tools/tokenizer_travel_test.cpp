#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "tests/support/paths.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"
#include "tests/tools/trained_run.hpp"

// The way of a tokenizer: from `data tokenize` or a model's folder into the run directory, and from there into exports and `generate`.
namespace millrace::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string tokenizer(const std::string& name) { return source_path("tests/golden/tokenizers/" + name); }

/// A folder with token files of a tokenizer of 1401 ids.
class TokenizerTravel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "one two three four five, and then some more words\n";
    folder_.write("in.txt", text);
    ASSERT_EQ(tokenize(tokenizer("gpt2.json"), {}).code, 0);
  }

  [[nodiscard]] CommandResult tokenize(const std::string& by, const Words& more) const {
    return run_millrace(joined({"data", "tokenize", "--tokenizer", by, "--out", folder_ / "tokens", folder_ / "in.txt"}, more));
  }
  [[nodiscard]] CommandResult train(const Words& more) const {
    return run_millrace(joined({"train", "configs/runs/tiny.toml", "data.text=", "data.tokens=" + (folder_ / "tokens"), "model.preset=",
                                "model.family=llama", "model.vocab_size=1401", "model.hidden_size=16", "model.intermediate_size=24",
                                "model.layers=2", "model.heads=2", "model.kv_heads=2", "train.steps=1", "train.warmup_steps=1",
                                "train.threads=1", "sample.tokens=0", "evaluate.batches=1", "run.directory=" + (folder_ / "run")},
                               more));
  }
  [[nodiscard]] std::string file(const std::string& path) const { return read_file(folder_ / path); }

  TemporaryFolder folder_;
};

TEST_F(TokenizerTravel, ToTheSampleOfARun) {
  const Words sample{"sample.tokens=6", "sample.prompt=one two", "sample.temperature=0"};
  const Words constant = joined(sample, {"train.decay=constant"});
  const auto trained = train(constant);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto generated = run_millrace(
      {"generate", "--checkpoint", folder_ / "run", "--prompt", "one two", "--tokens", "6", "--temperature", "0", "--threads", "1"});
  ASSERT_EQ(generated.code, 0) << generated.err;
  expect_parts(trained.out, {"one two" + generated.out});
  fs::remove_all(folder_ / "tokens.tokenizer");
  const auto longer = train(joined(constant, {"train.steps=2"}));
  EXPECT_EQ(longer.code, 0) << "the run has its tokenizer\n" << longer.err;
  expect_parts(longer.out, {"resumes after step 1", "one two"});
  expect_failure(train(joined(sample, {"run.directory="})), ExitCode::config,
                 {"sample.tokens = 6, but the tokenizer of data.tokens = " + (folder_ / "tokens") + " is not known"});
}

TEST_F(TokenizerTravel, FromATokenFileToTheRunAndItsExport) {
  EXPECT_EQ(file("tokens.tokenizer/tokenizer.json"), read_file(tokenizer("gpt2.json")));
  const auto trained = train({});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(file("run/tokenizer/tokenizer.json"), read_file(tokenizer("gpt2.json")));
  EXPECT_FALSE(fs::exists(folder_ / "run/tokenizer.tmp"));
  const auto exported = run_millrace({"ckpt", "export-hf", folder_ / "run", folder_ / "hf"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  expect_parts(exported.out, {"tokenizer: tokenizer.json of " + (folder_ / "run/tokenizer")});
  EXPECT_EQ(file("hf/tokenizer.json"), read_file(tokenizer("gpt2.json")));
  // What AutoTokenizer needs beside it.
  const auto config = Json::parse(file("hf/tokenizer_config.json"));
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_EQ(Json::parse(file("hf/config.json"))["eos_token_id"], *runtime::open_tokenizer(tokenizer("gpt2.json"))->end_of_document());
  ASSERT_EQ(run_millrace({"convert", folder_ / "hf", folder_ / "converted"}).code, 0);
  EXPECT_EQ(file("converted/tokenizer_config.json"), file("hf/tokenizer_config.json"));
  std::string text;
  for (const std::string from : {"run", "run/checkpoints/step-00000001", "hf", "converted"}) {
    const auto written = run_millrace(
        {"generate", "--model", folder_ / from, "--prompt", "one two", "--tokens", "4", "--temperature", "0", "--threads", "1"});
    EXPECT_EQ(written.code, 0) << written.err;
    if (text.empty()) text = written.out;
    EXPECT_EQ(written.out, text) << from;
  }
  EXPECT_FALSE(text.empty());
  // Another tokenizer than its own is named by mistake; the own one is no mistake.
  const auto by = [&](const std::string& model, const std::string& named) {
    return run_millrace(
        {"generate", "--model", folder_ / model, "--tokenizer", named, "--prompt", "one", "--tokens", "1", "--threads", "1"});
  };
  for (const std::string model : {"run", "hf"})
    expect_parts(by(model, "byte").err, {"--tokenizer byte is another than the model's own, tokenizer.json of " + (folder_ / model)});
  EXPECT_EQ(by("run", tokenizer("gpt2.json")).err.find("another than"), std::string::npos);
  fs::create_directories(folder_ / "bare");
  for (const std::string name : {"config.json", "model.safetensors"}) fs::copy_file(folder_ / ("hf/" + name), folder_ / ("bare/" + name));
  expect_parts(by("bare", "byte").err, {"--tokenizer byte has 257 ids, the model's vocabulary 1401: is it this model's tokenizer?"});
  EXPECT_EQ(by("bare", tokenizer("gpt2.json")).err.find("is it this"), std::string::npos);
  // A model trained on: its folder brings the tokenizer, and the data name none.
  fs::remove_all(folder_ / "tokens.tokenizer");
  const auto further = train({"model.from=" + (folder_ / "hf"), "run.directory=" + (folder_ / "further")});
  ASSERT_EQ(further.code, 0) << further.err;
  EXPECT_EQ(file("further/tokenizer/tokenizer_config.json"), file("hf/tokenizer_config.json"));
}

TEST_F(TokenizerTravel, SaysWhichVocabularyTheTokensNeed) {
  expect_failure(train({"model.vocab_size=300"}), ExitCode::data,
                 {"the model's vocabulary has 300: expected a file made with its tokenizer; their tokenizer " +
                  (folder_ / "tokens.tokenizer") + " has 1401 ids: model.vocab_size=1401"});
  fs::remove_all(folder_ / "tokens.tokenizer");
  expect_failure(train({"model.vocab_size=300"}), ExitCode::data,
                 {"the model's vocabulary has 300: expected a file made with its tokenizer, or a model.vocab_size above that token"});
}

TEST_F(TokenizerTravel, NothingIsReplacedBySurprise) {
  ASSERT_EQ(train({}).code, 0);
  const auto hash = runtime::read_tokenizer_files(tokenizer("gpt2.json")).vocabulary_hash();
  const auto other = runtime::read_tokenizer_files(tokenizer("qwen2.json")).vocabulary_hash();
  // The token file's tokenizer.
  fs::remove(folder_ / "tokens.bin");
  fs::remove(folder_ / "tokens.idx");
  expect_failure(tokenize(tokenizer("qwen2.json"), {}), ExitCode::usage,
                 {"tokens.tokenizer exists already and has another tokenizer", hash, other, "--overwrite"});
  EXPECT_FALSE(fs::exists(folder_ / "tokens.bin"));
  ASSERT_EQ(tokenize(tokenizer("gpt2.json"), {}).code, 0);
  // The run's.
  fs::copy_file(tokenizer("qwen2.json"), folder_ / "tokens.tokenizer/tokenizer.json", fs::copy_options::overwrite_existing);
  expect_failure(train({}), ExitCode::data, {"run/tokenizer (hash " + hash + ")", "tokens.tokenizer (hash " + other + ")", "remove"});
  EXPECT_EQ(file("run/tokenizer/tokenizer.json"), read_file(tokenizer("gpt2.json")));
  // The same vocabulary and another file beside it: the run goes on and says so.
  fs::copy_file(tokenizer("gpt2.json"), folder_ / "tokens.tokenizer/tokenizer.json", fs::copy_options::overwrite_existing);
  folder_.write("tokens.tokenizer/generation_config.json", "{}");
  const auto warned = train({});
  EXPECT_EQ(warned.code, 0) << warned.err;
  expect_parts(warned.err, {"other files beside the same vocabulary", "generation_config.json", "the run's own stay"});
  EXPECT_FALSE(fs::exists(folder_ / "run/tokenizer/generation_config.json"));
}

TEST_F(TokenizerTravel, ARefusedCommandLeavesNone) {
  fs::rename(folder_ / "tokens.tokenizer", folder_ / "aside");
  ASSERT_EQ(train({}).code, 0);
  fs::rename(folder_ / "aside", folder_ / "tokens.tokenizer");
  expect_failure(train({"train.seed=2"}), ExitCode::checkpoint, {"train.seed"});
  EXPECT_FALSE(fs::exists(folder_ / "run/tokenizer"));
}

TEST_F(TokenizerTravel, OneOfAnUnknownKindIsExportedAsItIs) {
  folder_.write("tokens.tokenizer/tokenizer.json", R"({"model": {"type": "Odd"}})");
  ASSERT_EQ(train({}).code, 0);
  const auto exported = run_millrace({"ckpt", "export-hf", folder_ / "run", folder_ / "hf"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  expect_parts(exported.err, {"exported without a tokenizer_config.json", "Odd"});
  EXPECT_EQ(file("hf/tokenizer.json"), R"({"model": {"type": "Odd"}})");
  EXPECT_FALSE(fs::exists(folder_ / "hf/tokenizer_config.json"));
}

TEST_F(TokenizerTravel, AnEvaluationWarnsOfTokensOfAnother) {
  ASSERT_EQ(train({}).code, 0);
  const auto evaluate = [&](const std::string& tokens) {
    return run_millrace({"eval", "--model", folder_ / "run", "data.tokens=" + tokens, "--microbatches", "1", "--threads", "1"});
  };
  const auto same = evaluate(folder_ / "tokens");
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("warning"), std::string::npos) << same.err;
  ASSERT_EQ(run_millrace({"data", "tokenize", "--tokenizer", "byte", "--out", folder_ / "bytes", folder_ / "in.txt"}).code, 0);
  const auto other = evaluate(folder_ / "bytes");
  EXPECT_EQ(other.code, 0) << other.err;
  expect_parts(other.err, {"warning: data.tokens was made by " + (folder_ / "bytes.tokenizer"), "the model's own tokenizer is ",
                           "the same ids mean other texts"});
}

TEST_F(TokenizerTravel, TokenFilesWithoutATokenizer) {
  fs::remove_all(folder_ / "tokens.tokenizer");
  ASSERT_EQ(train({}).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "run/tokenizer"));
  expect_failure(run_millrace({"generate", "--model", folder_ / "run", "--prompt", "a"}), ExitCode::usage,
                 {"was trained on token files without a tokenizer beside them", "--tokenizer PATH"});
  const auto exported = run_millrace({"ckpt", "export-hf", folder_ / "run", folder_ / "hf"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  expect_parts(exported.out, {"tokenizer: none"});
  // One folder for all token files of a folder; an older run finds it later.
  fs::create_directory(folder_ / "tokenizer");
  fs::copy_file(tokenizer("gpt2.json"), folder_ / "tokenizer/tokenizer.json");
  EXPECT_EQ(run_millrace({"generate", "--model", folder_ / "run", "--prompt", "a", "--tokens", "1", "--threads", "1"}).code, 0);
  ASSERT_EQ(train({}).code, 0);
  EXPECT_EQ(file("run/tokenizer/tokenizer.json"), read_file(tokenizer("gpt2.json")));
}

TEST(Tokenizer, OfBytesIsExportedAsOneOfBytePairs) {
  const auto& run = TrainedRun::get();
  const auto exported = runtime::open_tokenizer(run.exported()), bytes = runtime::open_tokenizer("byte");
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (const std::string& text : {all, std::string("Grüße <|endoftext|>\n\n  x")}) {
    std::vector<std::int32_t> one, other;
    exported->encode(text, one);
    bytes->encode(text, other);
    EXPECT_EQ(one, other);
    EXPECT_EQ(exported->decode(one), text);
  }
  EXPECT_EQ(exported->end_of_document(), bytes->end_of_document());
  EXPECT_EQ(exported->vocabulary(), bytes->vocabulary());
}

TEST(Tokenizer, FilesOfAPath) {
  const TemporaryFolder folder;
  folder.write("a/tokenizer.json", "{}");
  folder.write("a/tokenizer.model", "x");
  folder.write("a/tokenizer_config.json", "{}");
  folder.write("a/model.safetensors", "w");
  folder.write("b/vocab.json", "{}");
  folder.write("b/merges.txt", "");
  folder.write("c/generation_config.json", "{}");
  const auto names = [](const runtime::TokenizerFiles& files) {
    Words found;
    for (const auto& [name, text] : files.files) found.push_back(name);
    return found;
  };
  EXPECT_EQ(names(runtime::read_tokenizer_files(folder / "a")), (Words{"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}));
  EXPECT_EQ(names(runtime::read_tokenizer_files(folder / "a/tokenizer.model")), (Words{"tokenizer.model", "tokenizer_config.json"}));
  EXPECT_EQ(names(runtime::read_tokenizer_files(folder / "b")), (Words{"merges.txt", "vocab.json"}));
  EXPECT_TRUE(runtime::read_tokenizer_files(folder / "c").empty());
  EXPECT_TRUE(runtime::read_tokenizer_files(folder / "d").empty());
  EXPECT_EQ(names(runtime::read_tokenizer_files(tokenizer("sentence_bpe.model"))), (Words{"tokenizer.model"}));
}

}  // namespace
}  // namespace millrace::tests
