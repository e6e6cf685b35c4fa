#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "layers/config_file.hpp"
#include "runtime/io/metrics_file.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"
#include "tests/tools/trained_run.hpp"

namespace millrace::tests {
namespace {

nlohmann::json measure(const Words& words, const std::string& before = "") {
  const auto result = run_millrace(joined({"eval", "--json"}, words), before);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json{};
}

std::string loss_of(const Words& words, const std::string& before = "") {
  return measure(words, before).value("loss_hex", std::string("none"));
}

/// Token files of nanoGPT: 16 bits each.
std::string token_bytes(const std::vector<std::int32_t>& ids) {
  std::string bytes;
  for (const auto id : ids) {
    bytes.push_back(static_cast<char>(id & 255));
    bytes.push_back(static_cast<char>(id >> 8));
  }
  return bytes;
}

TEST(Eval, HasTheBitsOfTheRunsOwnEvaluation) {
  const auto& run = TrainedRun::get();
  const auto wanted = run.metric("evaluation_loss_hex");
  const auto own = measure({"--checkpoint", run.directory()});
  EXPECT_EQ(own.at("loss_hex"), wanted);
  EXPECT_DOUBLE_EQ(own.at("perplexity"), std::exp(own.at("loss").get<double>()));
  // One byte fewer than targets for each file's end, one more for the end itself.
  EXPECT_NEAR(own.at("bits_per_byte").get<double>() * own.at("bytes").get<double>() * std::log(2.0),
              own.at("loss").get<double>() * own.at("targets").get<double>(), 1e-6 * own.at("targets").get<double>());
  for (const Words& layout : {Words{"--ranks", "3"}, Words{"--ranks", "2", "--chunks", "2"}, Words{"--ranks", "1", "--layout", "E t*4 H"}})
    EXPECT_EQ(loss_of(joined({"--model", run.directory()}, layout)), wanted) << layout.back();
  EXPECT_EQ(loss_of({"--model", run.checkpoint()}, on_processes(2)), wanted);
  EXPECT_EQ(loss_of({"--model", run.checkpoint(), "data.text=docs", "data.held_out=4"}), wanted);
  EXPECT_NE(loss_of({"--model", run.checkpoint(), "data.text=docs", "data.held_out=3"}), wanted);
  // Another way to the ids of bytes.
  const auto tiktoken = measure({"--model", run.directory(), "--tokenizer", run.tiktoken()});
  EXPECT_EQ(tiktoken.at("loss_hex"), wanted);
  EXPECT_EQ(tiktoken.at("bits_per_byte"), own.at("bits_per_byte"));
}

TEST(Eval, TakesAFolderAndAFewMicrobatches) {
  const auto& run = TrainedRun::get();
  const Words shape{"--sequence", "64", "--batch", "4", "--threads", "1", "data.text=docs", "data.held_out=4"};
  EXPECT_EQ(loss_of(joined({"--model", run.exported()}, shape)), run.metric("evaluation_loss_hex"));
  const auto few = measure(joined({"--model", run.exported(), "--microbatches", "3"}, shape));
  EXPECT_EQ(few.at("microbatches"), 3);
  EXPECT_LE(few.at("targets").get<int>(), 3 * 4 * 64);
  EXPECT_FALSE(few.contains("bits_per_byte"));
  const auto words = run_millrace({"eval", "--model", run.directory(), "data.text=README.md"});
  EXPECT_EQ(words.code, 0) << words.err;
  expect_parts(words.out, {"tokens      ", "loss        ", " nats per token (", "perplexity  ", "per byte    "});
  expect_parts(words.err, {"model       llama | ", "data        ", "in 1 files, tokenizer byte | "});
}

TEST(Eval, MeasuresTokenFilesAsTheStraightProgramsDo) {
  const TemporaryFolder folder;
  constexpr std::int64_t sequence = 16;
  const auto ids = layers::testing::random_ids(sequence * 3 + 1, 128, 3);
  const auto file = folder.write("tokens.bin", token_bytes(ids));
  for (const std::string name : {"hf_gpt2", "hf_olmo3"}) {
    layers::testing::LoopOptions options;
    options.sequence = sequence;
    const auto where = layers::testing::golden_folder(name);
    layers::testing::Model model(layers::read_config_file(where).model, options);
    model.load(where);
    const auto sums = model.loop().evaluate(model.stream(), 3, [&](std::int64_t m, const runtime::BatchPlaces& batch) {
      for (std::size_t t = 0; t < sequence; ++t) {
        const auto at = static_cast<std::size_t>(m) * sequence + t;
        batch.tokens[t] = ids[at];
        batch.positions[t] = static_cast<std::int32_t>(t);
        batch.segments[t] = 1;
        batch.targets[t] = ids[at + 1];
      }
    });
    const auto found =
        measure({"--model", where, "--sequence", "16", "--batch", "1", "--ranks", "2", "--threads", "1", "data.tokens=" + file});
    EXPECT_EQ(found.at("targets"), 3 * sequence);
    EXPECT_NEAR(found.at("loss").get<double>(), sums.loss / static_cast<double>(3 * sequence), 1e-12) << name;  // rows in another order
  }
}

TEST(Eval, SaysWhatIsWrong) {
  const auto& run = TrainedRun::get();
  const auto refused = [](const Words& words, ExitCode code, const Words& parts) {
    expect_failure(run_millrace(joined({"eval"}, words)), code, parts);
  };
  const std::string llama = "tests/golden/hf_llama";
  const TemporaryFolder folder;
  const auto beyond = folder.write("beyond.bin", token_bytes({1, 2, 300, 4}));
  refused({}, ExitCode::usage, {"neither --model nor --checkpoint"});
  refused({"--model", llama, "--checkpoint", llama}, ExitCode::usage, {"both given"});
  refused({"--model", llama}, ExitCode::usage, {"neither data.text=… nor data.tokens=… is given"});
  refused({"--model", "docs", "data.text=docs"}, ExitCode::model, {"docs: no model"});
  refused({"--model", llama, "data.text=docs"}, ExitCode::usage, {"a vocabulary of 128", "--tokenizer PATH"});
  refused({"--model", llama, "data.text=docs", "--tokenizer", "byte"}, ExitCode::data, {"257", "128"});
  refused({"--model", llama, "data.tokens=" + beyond}, ExitCode::data, {beyond, "300", "128"});
  refused({"--model", llama, "data.tokens=" + beyond, "--tokenizer", "byte"}, ExitCode::usage, {"--tokenizer with data.tokens"});
  refused({"--model", run.directory(), "data.txet=docs"}, ExitCode::usage, {"data.txet=docs", "did you mean data.text?"});
  refused({"--model", run.directory(), "train.steps=3"}, ExitCode::usage, {"train.steps=3: wanted options and data."});
  refused({"--model", run.directory(), "data.text=docs", "data.held_out=9999"}, ExitCode::data, {"data.held_out = 9999 holds out none of"});
  refused({"--model", run.directory(), "data.text=/no/such/text"}, ExitCode::data, {"/no/such/text"});
  refused({"--model", run.directory(), "--sequence", "0"}, ExitCode::config, {"train.sequence = 0"});
  refused({"--model", run.directory(), "--jsno"}, ExitCode::usage, {"nearest is --json"});
  refused({"--model", "tests/golden/hf_gpt2", "--sequence", "65", "data.tokens=" + beyond}, ExitCode::data, {"300"});
}

}  // namespace
}  // namespace millrace::tests
