#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/data/choice_file.hpp"
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
  // One byte fewer than targets for the end of each file, and one more for the end itself.
  EXPECT_NEAR(own.at("bits_per_byte").get<double>() * own.at("bytes").get<double>() * std::log(2.0),
              own.at("loss").get<double>() * own.at("targets").get<double>(), 1e-6 * own.at("targets").get<double>());
  for (const Words& layout : {Words{"--ranks", "3"}, Words{"--ranks", "2", "--chunks", "2"}, Words{"--ranks", "1", "--layout", "E t*4 H"}})
    EXPECT_EQ(loss_of(joined({"--model", run.directory()}, layout)), wanted) << layout.back();
  EXPECT_EQ(loss_of({"--model", run.checkpoint()}, on_processes(2)), wanted);
  EXPECT_EQ(loss_of({"--model", run.checkpoint(), "data.text=" + run.data(), "data.held_out=4"}), wanted);
  EXPECT_NE(loss_of({"--model", run.checkpoint(), "data.text=" + run.data(), "data.held_out=3"}), wanted);
  // A second tokenizer whose ids are the bytes.
  const auto tiktoken = measure({"--model", run.directory(), "--tokenizer", run.tiktoken()});
  EXPECT_EQ(tiktoken.at("loss_hex"), wanted);
  EXPECT_EQ(tiktoken.at("bits_per_byte"), own.at("bits_per_byte"));
}

TEST(Eval, TakesTheAveragesOfARun) {
  const auto& run = TrainedRun::get();
  const TemporaryFolder folder;
  const std::string directory = folder / "run";
  const auto trained = run_millrace({"train", "configs/runs/tiny.toml", "train.threads=1", "train.steps=3", "train.warmup_steps=1",
                                     "train.average_decay=0.5", "evaluate.average=true", "evaluate.every=3", "evaluate.batches=0",
                                     "data.text=" + run.data(), "data.held_out=4", "sample.tokens=0", "run.directory=" + directory});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto wanted = run.metric_in(directory, "evaluation_loss_hex");
  EXPECT_EQ(loss_of({"--checkpoint", directory, "--average"}), wanted);
  EXPECT_EQ(loss_of({"--model", directory, "--average", "--ranks", "2"}), wanted);
  const auto last = run_millrace({"eval", "--json", "--checkpoint", directory});
  EXPECT_NE(nlohmann::json::parse(last.out).value("loss_hex", wanted), wanted);
  expect_parts(last.err, {"the last parameters are evaluated, " + directory + " evaluates their averages, as --average does"});
  const auto generated = run_millrace({"generate", "--checkpoint", directory, "--average", "--prompt", "The", "--tokens", "4"});
  EXPECT_EQ(generated.code, 0) << generated.err;
  expect_parts(generated.err, {", their averages | "});
  expect_failure(run_millrace({"eval", "--checkpoint", run.directory(), "--average"}), ExitCode::usage,
                 {"step-00000004, which has no moving averages"});
  expect_failure(run_millrace({"eval", "--model", run.exported(), "--average", "data.text=README.md"}), ExitCode::usage,
                 {"--average for ", "expected a run directory or a checkpoint"});
}

/// Processes that were given other weights would compute a mixture of two models.
TEST(Eval, ProcessesWithOtherWeightsDoNotAgree) {
  const auto& run = TrainedRun::get();
  const TemporaryFolder folder;
  std::filesystem::copy(run.exported(), folder / "other", std::filesystem::copy_options::recursive);
  std::fstream file(folder / "other/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\7');
  file.close();
  const auto both = [&](const std::string& first, const std::string& second) {
    const std::string words = " eval --model '" + second + "' data.text=README.md --microbatches 1 --sequence 32 --threads 1";
    return run_millrace({"eval", "--model", first, "data.text=README.md", "--microbatches", "1", "--sequence", "32", "--threads", "1"},
                        on_processes(1), ": -np 1 " + build_path("millrace") + words);
  };
  EXPECT_EQ(both(run.exported(), run.exported()).code, 0);
  expect_failure(both(run.exported(), folder / "other"), ExitCode::start, {"weights differs: process 1 on "});
  expect_failure(both(run.directory(), run.exported()), ExitCode::start, {"weights differs: process 1 on "});
  // Only one of them has --threads.
  const std::string second = ": -np 1 " + build_path("millrace") + " eval --threads 3 --model '" + run.directory() + "'";
  expect_failure(run_millrace({"eval", "--model", run.directory()}, on_processes(1), second), ExitCode::start,
                 {"threads differs: process 1 on "});
}

TEST(Eval, TakesAFolderAndAFewMicrobatches) {
  const auto& run = TrainedRun::get();
  const Words shape{"--sequence", "64", "--batch", "4", "--threads", "1", "data.text=" + run.data(), "data.held_out=4"};
  EXPECT_EQ(loss_of(joined({"--model", run.exported()}, shape)), run.metric("evaluation_loss_hex"));
  const auto few = measure(joined({"--model", run.exported(), "--microbatches", "3"}, shape));
  EXPECT_EQ(few.at("microbatches"), 3);
  EXPECT_LE(few.at("targets").get<int>(), 3 * 4 * 64);
  EXPECT_FALSE(few.contains("bits_per_byte"));
  const auto words = run_millrace({"eval", "--model", run.directory(), "data.text=README.md"});
  EXPECT_EQ(words.code, 0) << words.err;
  expect_parts(words.out, {"tokens      ", "loss        ", " nats per token (", "perplexity  ", "per byte    "});
  expect_parts(words.err, {"model       llama | ", "data        ", "in 1 file, tokenizer byte | "});
}

TEST(Eval, MeasuresTextAsTheTokenFileOfItsTokenizer) {
  const auto& run = TrainedRun::get();
  const std::string tokens = run.folder() / "tokens", other = run.folder() / "other", tokenizer = "tests/golden/tokenizers/llama2.json";
  ASSERT_EQ(run_millrace({"data", "tokenize", "--tokenizer", tokenizer, "--prepend-bod", "--out", tokens, run.data()}).code, 0);
  const auto trained =
      run_millrace({"train", "configs/runs/tiny.toml", "model.vocab_size=1600", "train.threads=1", "train.steps=1", "train.warmup_steps=0",
                    "data.text=", "data.tokens=" + tokens, "data.held_out=0", "sample.tokens=0", "run.directory=" + other});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto by_tokens = measure({"--model", other, "data.tokens=" + tokens});
  const auto by_text = measure({"--model", other, "--tokenizer", tokenizer, "data.text=" + run.data()});
  EXPECT_EQ(by_text.at("loss_hex"), by_tokens.at("loss_hex"));
  EXPECT_EQ(by_text.at("targets"), by_tokens.at("targets"));
  EXPECT_FALSE(by_tokens.contains("bits_per_byte"));
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 8; ++i) bytes += 1500 + 100 * i;
  EXPECT_EQ(by_text.at("bytes"), bytes);
  const auto text = run_millrace({"generate", "--model", other, "--tokenizer", tokenizer, "--prompt", "A step", "--tokens", "8"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(run_millrace({"generate", "--model", other, "--prompt", "A step", "--tokens", "8"}).out, text.out)
      << "the run keeps its tokenizer";
}

TEST(Eval, KnowsThatARunWasTrainedOnBytes) {
  const auto& run = TrainedRun::get();
  const std::string wide = run.folder() / "wide";  // more ids than a byte vocabulary could have
  const auto trained =
      run_millrace({"train", "configs/runs/tiny.toml", "model.vocab_size=700", "train.threads=1", "train.steps=1", "train.warmup_steps=0",
                    "data.text=" + run.data(), "data.held_out=4", "evaluate.batches=0", "sample.tokens=0", "run.directory=" + wide});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto loss = loss_of({"--model", wide});
  EXPECT_NE(read_file(wide + "/metrics.jsonl").find("\"evaluation_loss_hex\":\"" + loss + "\""), std::string::npos);
  EXPECT_EQ(loss_of({"--model", wide, "--tokenizer", "byte"}), loss);
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
    const auto sums = model.loop().evaluate(model.context(), 3, [&](std::int64_t m, const runtime::BatchView& batch) {
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
    // the rows are in another order
    EXPECT_NEAR(found.at("loss").get<double>(), sums.mean().total, 1e-12) << name;
  }
}

/// A multiple-choice file of llm.c.
struct Choice {
  std::size_t right;
  std::vector<std::int32_t> context;
  std::vector<std::vector<std::int32_t>> completions;
};
std::string choice_bytes(const std::vector<Choice>& choices) {
  std::vector<std::int32_t> all;
  std::size_t longest = 0;
  for (std::size_t index = 0; index < choices.size(); ++index) {
    const auto& choice = choices[index];
    std::vector<std::int32_t> context{65535, 0, static_cast<std::int32_t>(index), static_cast<std::int32_t>(choice.right),
                                      static_cast<std::int32_t>(choice.completions.size())};
    const auto append = [&context](const std::vector<std::int32_t>& tokens) {
      context.push_back(static_cast<std::int32_t>(tokens.size()));
      context.insert(context.end(), tokens.begin(), tokens.end());
    };
    append(choice.context);
    for (const auto& completion : choice.completions) append(completion);
    context[1] = static_cast<std::int32_t>(2 * context.size());
    longest = std::max(longest, 2 * context.size());
    all.insert(all.end(), context.begin(), context.end());
  }
  std::vector<std::int32_t> header(512, 0);  // 256 numbers of 32 bits
  const auto put = [&header](std::size_t at, std::uint32_t value) {
    header[2 * at] = static_cast<std::int32_t>(value & 0xffffU);
    header[2 * at + 1] = static_cast<std::int32_t>(value >> 16U);
  };
  put(0, 20240522);
  put(1, 1);
  put(2, static_cast<std::uint32_t>(choices.size()));
  put(3, static_cast<std::uint32_t>(longest));
  return token_bytes(header) + token_bytes(all);
}

/// Examples of random tokens, with two to five completions each.
std::vector<Choice> some_choices(std::size_t count) {
  std::vector<Choice> choices;
  for (std::uint32_t i = 0; i < count; ++i) {
    Choice choice{0, layers::testing::random_ids(1 + i % 7, 128, 3 * i + 1), {}};
    for (std::uint32_t c = 0; c < 2 + i % 4; ++c)
      choice.completions.push_back(layers::testing::random_ids(1 + (i + c) % 6, 128, 50 * i + c));
    choices.push_back(std::move(choice));
  }
  return choices;
}

TEST(Eval, ChoosesTheCompletionOfLowestMeanLoss) {
  const TemporaryFolder folder;
  const auto where = layers::testing::golden_folder("hf_llama");
  const auto config = layers::read_config_file(where).model;
  auto choices = some_choices(24);
  // The correct answers by programs that run each completion in a row of its own length; a third of the labels is made wrong.
  std::int64_t right = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    auto& choice = choices[i];
    double lowest = 0;
    std::size_t best = 0;
    for (std::size_t c = 0; c < choice.completions.size(); ++c) {
      auto row = choice.context;
      row.insert(row.end(), choice.completions[c].begin(), choice.completions[c].end());
      layers::testing::LoopOptions options;
      options.sequence = static_cast<std::int64_t>(row.size()) - 1;
      layers::testing::Model model(config, options);
      model.load(where);
      const auto sums = model.loop().evaluate(model.context(), 1, [&](std::int64_t, const runtime::BatchView& batch) {
        for (std::size_t t = 0; t + 1 < row.size(); ++t) {
          batch.tokens[t] = row[t];
          batch.positions[t] = static_cast<std::int32_t>(t);
          batch.segments[t] = 1;
          batch.targets[t] = t + 1 < choice.context.size() ? -1 : row[t + 1];
        }
      });
      const double mean = sums.mean().total;
      if (c == 0 || mean < lowest) best = c;
      if (c == 0 || mean < lowest) lowest = mean;
    }
    choice.right = i % 3 == 0 ? (best + 1) % choice.completions.size() : best;
    right += i % 3 == 0 ? 0 : 1;
  }
  const auto file = folder.write("choices.bin", choice_bytes(choices));
  for (const Words& layout : {Words{}, Words{"--ranks", "3"}, Words{"--ranks", "2", "--chunks", "2"}}) {
    const auto found = measure(joined({"--model", where, "--choices", file}, layout));
    EXPECT_EQ(found.at("examples"), 24);
    EXPECT_EQ(found.at("right"), right);
    EXPECT_EQ(found.at("accuracy"), 16.0 / 24.0);
  }
  expect_parts(run_millrace({"eval", "--model", where, "--choices", file}).out, {"accuracy    0.6667, 16 of 24 examples right"});
}

TEST(Eval, RefusesDamagedChoices) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, const Words& parts) {
    const auto file = folder.write("choices.bin", bytes);
    EXPECT_THROW(runtime::ChoiceFile(file, 128), Error);
    try {
      const runtime::ChoiceFile opened(file, 128);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      expect_parts(error.what(), joined({file}, parts));
    }
  };
  const auto good = choice_bytes(some_choices(3));
  const auto changed = [&](std::size_t number, std::int32_t value) {
    auto bytes = good;
    bytes[2 * number] = static_cast<char>(value & 255);
    bytes[2 * number + 1] = static_cast<char>(value >> 8);
    return bytes;
  };
  refused("", {"20240522"});
  refused(changed(0, 7), {"expected llm.c's multiple-choice file"});
  refused(changed(2, 2), {"expected llm.c's multiple-choice file"});
  refused(changed(4, 0), {"0 examples"});
  refused(changed(4, 2), {"bytes after the last of 2 examples"});
  refused(changed(4, 4), {"example 3: the file ends in it"});
  refused(changed(6, 1), {"example 0", "longest example: 1"});
  refused(changed(512, 1), {"example 0: begins with 1, expected 65535"});
  refused(changed(513, 1), {"example 0", "header says 1"});
  refused(changed(514, 1), {"example 0: has the index 1"});
  refused(changed(515, 9), {"example 0: completion 9 of 2 is right"});
  refused(changed(517, 0), {"example 0: a context without tokens"});
  refused(changed(517, 60000), {"example 0: a context of 60000 tokens, the file ends before"});
  refused(changed(518, 128), {"example 0: token 128 in a context, the model's vocabulary has 128"});
  for (std::size_t size = 1; size < good.size(); size += 13) refused(good.substr(0, size), {});
  const auto file = folder.write("good.bin", good);
  expect_failure(run_millrace({"eval", "--model", "tests/golden/hf_llama", "--choices", file, "data.text=docs"}), ExitCode::usage,
                 {"data.text=docs with --choices"});
  expect_failure(run_millrace({"eval", "--model", "tests/golden/hf_llama", "--choices", file, "--batch", "3"}), ExitCode::usage,
                 {"--batch with --choices"});
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
  refused({"--model", llama, "data.text=docs"}, ExitCode::usage, {"128 ids", "--tokenizer PATH"});
  refused({"--model", llama, "data.text=docs", "--tokenizer", "byte"}, ExitCode::data, {"257", "128"});
  refused({"--model", llama, "data.tokens=" + beyond}, ExitCode::data, {beyond, "300", "128"});
  refused({"--model", llama, "data.tokens=" + beyond, "--tokenizer", "byte"}, ExitCode::usage, {"--tokenizer with data.tokens"});
  refused({"--model", run.directory(), "data.txet=docs"}, ExitCode::usage, {"data.txet=docs", "did you mean data.text?"});
  refused({"--model", run.directory(), "train.steps=3"}, ExitCode::usage, {"train.steps=3: expected options and data."});
  refused({"--model", run.directory(), "data.text=docs", "data.held_out=9999"}, ExitCode::data, {"data.held_out = 9999 holds out none of"});
  refused({"--model", run.directory(), "data.held_out=0"}, ExitCode::usage,
          {"data.held_out=0 holds nothing out, so there is nothing to evaluate: name files with data.validation=FILES, or with "
           "data.text=FILES to evaluate on all of them"});
  refused({"--model", run.directory(), "data.text=/no/such/text"}, ExitCode::data, {"/no/such/text"});
  refused({"--model", run.directory(), "--sequence", "0"}, ExitCode::usage, {"--sequence 0, expected a whole number from 1 to "});
  refused({"--model", run.directory(), "--batch", "0"}, ExitCode::usage, {"--batch 0, expected a whole number from 1 to "});
  const auto empty = folder.write("empty.txt", "");
  refused({"--model", run.directory(), "data.text=" + empty}, ExitCode::data,
          {"[data] " + empty + ": 0 tokens, expected 2 or more: the loss"});
  refused({"--model", run.directory(), "--jsno"}, ExitCode::usage, {"expected --json"});
  refused({"--model", "tests/golden/hf_gpt2", "--sequence", "65", "data.tokens=" + beyond}, ExitCode::data, {"300"});
}

}  // namespace
}  // namespace millrace::tests
