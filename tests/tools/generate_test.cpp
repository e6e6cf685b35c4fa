#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "actors/sampler.hpp"
#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"
#include "tests/tools/trained_run.hpp"

namespace millrace::tests {
namespace {

std::string golden(const std::string& name) { return "tests/golden/" + name; }

CommandResult write_on(const std::string& model, const std::string& prompt, const Words& more, const std::string& before = "") {
  return run_millrace(joined({"generate", "--model", model, "--prompt", prompt}, more), before);
}

/// The tiny models know 128 ids: ASCII.
CommandResult tiny(const std::string& name, const Words& more, const std::string& before = "") {
  return write_on(golden(name), "Once upon", joined({"--tokenizer", "byte", "--threads", "1"}, more), before);
}

/// What a model with `vocabulary` ids generates if all are equally probable, as at a very high temperature.
std::vector<std::int32_t> drawn_evenly(std::int64_t vocabulary, std::uint64_t seed, std::size_t first, std::size_t count) {
  const std::vector<float> even(static_cast<std::size_t>(vocabulary), 0.0F);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(actors::sample_token(even, 1.0, seed, first + i));
  return ids;
}

TEST(Generate, TakesTheMostProbableTokensOfTheStraightPrograms) {
  const std::string prompt = "Once upon";
  constexpr std::int64_t tokens = 10;
  for (const std::string name : {"hf_gpt2", "hf_llama", "hf_gemma3", "hf_gemma4"}) {
    layers::testing::LoopOptions options;
    options.sequence = static_cast<std::int64_t>(prompt.size()) + tokens - 1;
    const auto config = layers::read_config_file(layers::testing::golden_folder(name)).model;
    layers::testing::Model model(config, options);
    model.load(layers::testing::golden_folder(name));
    std::string text = prompt;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto logits = model.logits([&](std::int64_t, const runtime::BatchView& batch) {
        for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
          batch.tokens[t] = t < text.size() ? text[t] : 0;
          batch.positions[t] = static_cast<std::int32_t>(t);
          batch.segments[t] = t < text.size() ? 1 : 0;
          batch.targets[t] = -1;
        }
      });
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((text.size() - 1) * static_cast<std::size_t>(config.vocab_size));
      text.push_back(static_cast<char>(std::max_element(row, row + config.vocab_size) - row));
    }
    const auto result = tiny(name, {"--tokens", "10", "--temperature", "0"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(prompt + result.out, text) << name;
    expect_parts(result.err, {"prompt    9 tokens of byte", "tokens    10 in ", "tokens/s | ends with as many tokens as asked for"});
  }
}

TEST(Generate, WritesTheSameInEveryLayout) {
  for (const Words& how : {Words{"--temperature", "0"}, Words{"--temperature", "1.5", "--top-k", "40", "--top-p", "0.9", "--seed", "7"}}) {
    for (const std::string name : {"hf_llama", "hf_gpt2"}) {
      const auto one = tiny(name, joined({"--tokens", "16", "--ranks", "1"}, how));
      ASSERT_EQ(one.code, 0) << one.err;
      EXPECT_EQ(one.out.size(), 16U);
      for (const Words& layout :
           {Words{"--ranks", "3"}, Words{"--ranks", "2", "--chunks", "2"}, Words{"--ranks", "2", "--layout", "E t | t*2 H"}})
        EXPECT_EQ(tiny(name, joined({"--tokens", "16"}, joined(how, layout))).out, one.out) << name << " " << layout.back();
      EXPECT_EQ(tiny(name, joined({"--tokens", "16"}, how), on_processes(2)).out, one.out) << name;
    }
  }
}

TEST(Generate, DrawsBySeedAndEndsAtTheStopText) {
  const auto ids = drawn_evenly(128, 5, 9, 30);
  const std::string text(ids.begin(), ids.end());
  const Words even{"--tokens", "30", "--temperature", "1e7", "--seed", "5"};
  EXPECT_EQ(tiny("hf_llama", even).out, text);
  const auto stop = text.substr(12, 3);
  const auto stopped = tiny("hf_llama", joined(even, {"--stop", stop}));
  EXPECT_EQ(stopped.out, text.substr(0, text.find(stop)));
  expect_parts(stopped.err, {"ends with the stop text"});
  EXPECT_EQ(tiny("hf_llama", joined(even, {"--top-k", "1"})).out, tiny("hf_llama", {"--tokens", "30", "--temperature", "0"}).out);
}

TEST(Generate, EndsAtTheEndOfTheDocument) {
  std::uint64_t seed = 1;
  std::vector<std::int32_t> ids;
  std::size_t end = 0;
  for (; end == 0 || end >= 40; ++seed) {
    ids = drawn_evenly(257, seed, 3, 40);
    end = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), 256) - ids.begin());
  }
  const auto result = write_on(TrainedRun::get().directory(), "The",
                               {"--tokens", "60", "--temperature", "1e7", "--seed", std::to_string(seed - 1), "--threads", "1"});
  EXPECT_EQ(result.out, std::string(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(end)));
  expect_parts(result.err, {fmt::format("tokens    {} in", end + 1), "ends with the end of the document"});
}

TEST(Generate, TakesARunACheckpointOrAFolder) {
  const auto& run = TrainedRun::get();
  const Words how{"--tokens", "20", "--temperature", "0", "--threads", "1"};
  const auto newest = write_on(run.directory(), "The pipeline", how);
  ASSERT_EQ(newest.code, 0) << newest.err;
  EXPECT_EQ(newest.out.size(), 20U);
  EXPECT_EQ(write_on(run.checkpoint(), "The pipeline", how).out, newest.out);
  EXPECT_EQ(write_on(run.exported(), "The pipeline", how).out, newest.out);
  const auto prompt = run.folder().write("prompt", "The pipeline");
  EXPECT_EQ(run_millrace(joined({"generate", "--checkpoint", run.directory(), "--prompt-file", prompt}, how)).out, newest.out);
  // A second tokenizer whose ids are the bytes: a .tiktoken file, named on the command line or found beside the weights.
  EXPECT_EQ(write_on(run.exported(), "The pipeline", joined(how, {"--tokenizer", run.tiktoken()})).out, newest.out);
  const std::string beside = run.folder() / "beside";
  std::filesystem::copy(run.exported(), beside);
  std::filesystem::remove(beside + "/tokenizer.json");
  std::filesystem::copy(run.tiktoken(), beside);
  const auto found = write_on(beside, "The pipeline", how);
  EXPECT_EQ(found.out, newest.out);
  expect_parts(found.err, {"12 tokens of " + beside + " (257 of the model's 257 ids)"});
}

TEST(Generate, SaysWhatDoesNotFit) {
  const std::string long_prompt(70, 'a'), prompt(60, 'a');
  const Words bytes{"--tokenizer", "byte"};
  expect_failure(write_on(golden("hf_gpt2"), long_prompt, bytes), ExitCode::usage,
                 {"a prompt of 70 tokens, the model has learned 64 positions"});
  const auto cut = write_on(golden("hf_gpt2"), prompt, joined(bytes, {"--tokens", "20", "--temperature", "0"}));
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_EQ(cut.out.size(), 5U);
  expect_parts(cut.err, {"--tokens 20 after a prompt of 60, the model has learned 64 positions: 5 tokens at most"});
  expect_parts(write_on(golden("hf_llama"), prompt, joined(bytes, {"--tokens", "20"})).err,
               {"60 prompt and 20 new tokens, the model's context length is 64"});
  expect_failure(write_on(golden("hf_llama"), "caf\xc3\xa9", bytes), ExitCode::data,
                 {"the prompt has token 195 of the tokenizer byte (257 ids), the model's vocabulary has 128"});
  expect_failure(write_on(golden("hf_llama"), "a", {}), ExitCode::usage,
                 {"the tokenizer of tests/golden/hf_llama is not known: it has no tokenizer.json", "128 ids", "--tokenizer PATH"});
  expect_failure(write_on(golden("hf_llama"), "a", {"--tokenizer", "/no/such.model"}), ExitCode::data, {"/no/such.model"});
  expect_failure(write_on(golden("hf_llama"), "a", joined(bytes, {"--ranks", "9"})), ExitCode::config, {"9", "3"});
}

TEST(Generate, RefusesToDrawFromWhatIsNoNumber) {
  const TemporaryFolder folder;
  const auto good = read_source(golden("hf_llama") + "/model.safetensors");
  const auto header = 8 + static_cast<unsigned char>(good[0]) + 256U * static_cast<unsigned char>(good[1]);
  folder.write("model.safetensors", good.substr(0, header) + std::string(good.size() - header, '\xff'));
  folder.write("config.json", read_source(golden("hf_llama") + "/config.json"));
  for (const std::string& before : {std::string(), on_processes(2)}) {
    const auto result = write_on(folder.path().string(), "abc", {"--tokenizer", "byte"}, before);
    expect_failure(result, ExitCode::numerics, {"the logits after token 3 of the text are not finite"});
    EXPECT_EQ(result.out, "");
  }
}

TEST(Generate, NamesWhatWasMeant) {
  const Words bytes{"--tokenizer", "byte"};
  expect_failure(write_on(golden("hf_llama"), "", bytes), ExitCode::usage, {"--prompt is empty"});
  expect_failure(run_millrace({"generate", "--model", golden("hf_llama")}), ExitCode::usage, {"neither --prompt nor --prompt-file"});
  expect_failure(run_millrace({"generate", "--prompt", "a"}), ExitCode::usage, {"neither --model nor --checkpoint"});
  expect_failure(write_on("/no/such/folder", "a", bytes), ExitCode::model, {"/no/such/folder: there is no such folder"});
  expect_failure(write_on("docs", "a", bytes), ExitCode::model, {"docs: no model, expected a folder with config.json"});
  expect_failure(run_millrace({"generate", "--checkpoint", "docs", "--prompt", "a"}), ExitCode::checkpoint,
                 {"docs: neither a run directory"});
  expect_failure(write_on(golden("hf_llama"), "a", {"--tokenzier", "byte"}), ExitCode::usage,
                 {"unknown option --tokenzier, expected --tokenizer"});
  expect_failure(write_on(golden("hf_llama"), "a", {"more", "words"}), ExitCode::usage, {"more: expected options alone"});
  for (const Words& wrong :
       {Words{"--tokens", "0"}, Words{"--temperature", "-1"}, Words{"--top-p", "1.5"}, Words{"--top-k", "-3"}, Words{"--dtype", "fp8"}})
    expect_failure(write_on(golden("hf_llama"), "a", joined(bytes, wrong)), ExitCode::usage, wrong);
  expect_failure(write_on(golden("hf_llama"), "a", joined(bytes, {"--temperature", "-1"})), ExitCode::usage,
                 {"--temperature -1, expected 0 or a number above it"});
  expect_failure(write_on(golden("hf_llama"), "a", joined(bytes, {"--top-p", "-1"})), ExitCode::usage,
                 {"--top-p -1, expected a number above 0"});
}

}  // namespace
}  // namespace millrace::tests
