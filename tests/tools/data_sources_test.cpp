// Runs on validation data of their own, and on mixtures of sources.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// A nanoGPT file of `count` ids below `largest`, in a pattern that a seed changes.
std::string token_bytes(int count, int seed, int largest = 250) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int id = (i * (3 + seed) + i / 7 * seed) % largest;
    bytes += {static_cast<char>(id & 255), static_cast<char>(id >> 8)};
  }
  return bytes;
}

class DataSources : public ::testing::Test {
 protected:
  /// Four steps of the smallest model, each of four rows of 32 tokens, on one rank.
  [[nodiscard]] Words words(const std::string& run, const Words& more) const {
    return joined(
        {"train", "configs/runs/tiny.toml", "run.directory=" + folder_ / run, "data.text=", "train.steps=4", "train.warmup_steps=1",
         "train.sequence=32", "train.batch=1", "train.threads=1", "checkpoint.every=2", "evaluate.batches=0", "sample.tokens=0"},
        more);
  }
  [[nodiscard]] CommandResult train(const std::string& run, const Words& more, const std::string& before = "") const {
    return run_millrace(words(run, more), before);
  }
  [[nodiscard]] std::string state(const std::string& run) const { return run_millrace({"ckpt", "hash", folder_ / run}).out; }
  /// The lines of metrics.jsonl that have this field.
  [[nodiscard]] std::vector<nlohmann::json> lines(const std::string& run, const std::string& field) const {
    std::vector<nlohmann::json> found;
    std::istringstream text(read_file(folder_ / run + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);)
      if (auto json = nlohmann::json::parse(line); json.contains(field)) found.push_back(std::move(json));
    return found;
  }
  [[nodiscard]] std::string evaluation(const std::string& run) const {
    return lines(run, "evaluation_loss_hex").back().at("evaluation_loss_hex");
  }
  [[nodiscard]] CommandResult evaluate(const std::string& run, const Words& more = {}) const {
    return run_millrace(joined({"eval", "--json", "--checkpoint", folder_ / run}, more));
  }
  /// The loss that eval prints.
  [[nodiscard]] std::string loss(const std::string& run, const Words& more = {}) const {
    const auto result = evaluate(run, more);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? nlohmann::json::parse(result.out).at("loss_hex").get<std::string>() : "";
  }

  TemporaryFolder folder_;
};

// -- validation ---------------------------------------------------------------------------------------------------------------------------

TEST_F(DataSources, ARunEvaluatesOnTheFileBesideItsTrainingFile) {
  folder_.write("nano/train.bin", token_bytes(900, 1));
  const auto validation = folder_.write("nano/val.bin", token_bytes(300, 2));
  const Words data{"data.tokens=" + folder_ / "nano/train.bin"};
  const auto trained = train("run", data);
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_parts(trained.out, {"data      900 tokens", " in 1 file | 0.57 epochs in 4 steps\n",
                             "held out  a file with 300 tokens, found beside the training data: " + validation, "on 299 targets"});
  const auto first = lines("run", "loss").front();
  EXPECT_EQ(first.at("tokens_seen"), 128);
  EXPECT_DOUBLE_EQ(first.at("epoch"), 4.0 / 28);
  // The run's own evaluation, by another command, in another layout, and after the training data are gone.
  const auto own = evaluation("run");
  std::filesystem::remove(folder_ / "nano/train.bin");
  EXPECT_EQ(loss("run"), own);
  EXPECT_EQ(loss("run", {"--ranks", "2"}), own);
  EXPECT_EQ(loss("run", {"data.validation=" + validation}), own);
  const auto other = folder_.write("other.bin", token_bytes(300, 5));
  EXPECT_NE(loss("run", {"data.validation=" + other}), own);
  EXPECT_EQ(loss("run", {"data.tokens=" + validation}), own);
  expect_failure(evaluate("run", {"data.validation=" + folder_ / "none"}), ExitCode::data, {"data.validation: ", "no such file or folder"});

  // Named in full it is the same run; it resumes with neither another share nor other bytes.
  folder_.write("nano/train.bin", token_bytes(900, 1));
  EXPECT_EQ(train("run", joined(data, {"data.validation=" + validation})).code, 0);
  expect_failure(train("run", joined(data, {"data.held_out=10"})), ExitCode::checkpoint, {"data.held_out was 0, now 10"});
  folder_.write("nano/val.bin", token_bytes(300, 3));
  expect_failure(train("run", data), ExitCode::checkpoint, {"belongs to another run: " + validation + ": its content has the hash "});
}

TEST_F(DataSources, ARunThatBeganWithoutValidationDataResumesWithoutThem) {
  const Words data{"data.tokens=" + folder_.write("nano/train.bin", token_bytes(900, 1))};
  ASSERT_EQ(train("run", data).code, 0);
  const auto whole = state("run");
  std::filesystem::remove_all(folder_ / "run/checkpoints/step-00000004");
  const auto validation = folder_.write("nano/val.bin", token_bytes(300, 2));
  const auto resumed = train("run", data);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_parts(resumed.err,
               {"warning: ", validation + ": not used for evaluation, since the run in " + folder_ / "run" + " began without it"});
  expect_parts(resumed.out, {"held out  the last 90 tokens of 900"});
  EXPECT_EQ(state("run"), whole);
  expect_failure(train("run", joined(data, {"data.validation=" + validation})), ExitCode::checkpoint, {"data.held_out was 10, now 0"});
  // A run on text would not go on with token files anyway.
  ASSERT_EQ(train("text", {"data.text=" + folder_.write("a.txt", std::string(900, 'a'))}).code, 0);
  const auto inspected =
      run_millrace(joined({"data", "inspect", "configs/runs/tiny.toml", "data.text=", "run.directory=" + folder_ / "text"}, data));
  expect_parts(inspected.out, {validation});
  EXPECT_EQ(inspected.err, "");
}

TEST_F(DataSources, AFolderOfShardsIsDividedByTheirNames) {
  for (int shard = 1; shard <= 3; ++shard) folder_.write(fmt::format("fine/fine_train_{:06}.bin", shard), token_bytes(400, shard));
  folder_.write("fine/fine_val_000000.bin", token_bytes(200, 9));
  const auto folder = train("folder", {"data.tokens=" + folder_ / "fine"});
  ASSERT_EQ(folder.code, 0) << folder.err;
  expect_parts(folder.out, {"data      1200 tokens", " in 3 files", "(1 of them in folders of training data, and not trained on)"});
  std::string list = "data.tokens=";
  for (int shard = 3; shard >= 1; --shard) list += folder_ / fmt::format("fine/fine_train_{:06}.bin", shard) + ",";
  ASSERT_EQ(train("files", {list}).code, 0);
  EXPECT_EQ(state("files"), state("folder")) << "files are read in the order of their paths";
  // A share that is given is taken, with a word about the file that is now trained on.
  const auto share = train("share", {"data.tokens=" + folder_ / "fine", "data.held_out=2"});
  ASSERT_EQ(share.code, 0) << share.err;
  expect_parts(share.err, {"warning: ", "data.held_out = 2 is given, so the run trains on ", "fine_val_000000.bin"});
  const auto shown = run_millrace({"config", "show", "data.tokens=" + folder_ / "fine"}).out;
  expect_parts(shown, {"fine_val_000000.bin\"]", "# built-in: found beside data.tokens"});
}

TEST_F(DataSources, BadValidationDataEndTheRunBeforeItBegins) {
  const Words data{"data.tokens=" + folder_.write("train.bin", token_bytes(900, 1))};
  const auto refused = [&](const std::string& validation, const Words& parts) {
    expect_failure(train("run", joined(data, {"data.validation=" + validation})), ExitCode::data, parts);
  };
  std::filesystem::create_directories(folder_ / "none");
  refused(folder_ / "none", {"data.validation: " + folder_ / "none" + ": no files found"});
  refused(folder_.write("short.bin", token_bytes(32, 1)), {"data.validation: a file with 32 tokens: ", "expected 33 tokens or more"});
  refused(folder_.write("wide.bin", token_bytes(900, 1, 300)), {"data.validation: ", "wide.bin: token ", "the model's vocabulary has 257"});
  refused(folder_ / "train.bin", {"train.bin: named as training data by data.tokens and as validation data by data.validation"});
}

TEST_F(DataSources, TextIsValidatedOnText) {
  for (const char* name : {"text/a", "text/b", "held/c"}) folder_.write(name, read_source("docs/words.md").substr(0, 3000));
  const auto trained = train("run", {"data.text=" + folder_ / "text", "data.validation=" + folder_ / "held"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_parts(trained.out, {"held out  a file with 3001 tokens: " + folder_ / "held/c"});
  EXPECT_EQ(loss("run"), evaluation("run"));
}

// -- mixtures -----------------------------------------------------------------------------------------------------------------------------

class Mixture : public DataSources {
 protected:
  Mixture() {
    for (int shard = 1; shard <= 3; ++shard) folder_.write(fmt::format("web/{}.bin", shard), token_bytes(1500, shard));
    folder_.write("code/train.bin", token_bytes(330, 7));
  }
  /// The sources by weight; four gradient sums, which up to four copies can share.
  [[nodiscard]] Words mixed(const std::string& weights, const Words& more = {}) const {
    return joined({"data.tokens=" + folder_ / "web," + folder_ / "code/train.bin", "data.weights=" + weights, "data.held_out=3",
                   "train.microbatches=4", "train.accumulators=2"},
                  more);
  }
};

TEST_F(Mixture, HasTheSameBitsInEveryLayoutAndWhenItIsResumed) {
  const auto one = train("one", mixed("3,1"));
  ASSERT_EQ(one.code, 0) << one.err;
  const auto whole = state("one");
  EXPECT_EQ(train("ranks", mixed("3,1", {"pipeline.ranks=2", "pipeline.schedule=zb-h1"}), on_processes(2)).code, 0);
  EXPECT_EQ(state("ranks"), whole);
  EXPECT_EQ(train("copies", mixed("3,1", {"mesh.data=2"}), on_processes(2)).code, 0);
  EXPECT_EQ(state("copies"), whole);
  EXPECT_EQ(evaluation("copies"), evaluation("one"));
  EXPECT_EQ(loss("one"), evaluation("one"));
  for (const char* field : {"source_tokens", "source_epochs"})
    EXPECT_EQ(lines("copies", "loss").back().at(field), lines("one", "loss").back().at(field));

  std::filesystem::remove_all(folder_ / "one/checkpoints/step-00000004");
  const auto resumed = train("one", mixed("3,1"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_parts(resumed.out, {"resumes after step 2"});
  EXPECT_EQ(state("one"), whole);
  EXPECT_EQ(lines("one", "loss").back().at("source_tokens"), (std::vector<int>{384, 128})) << "counted from the run's first step";
  expect_failure(train("one", mixed("1,1")), ExitCode::checkpoint, {"data.weights was [3.0, 1.0], now [1.0, 1.0]"});
}

TEST_F(Mixture, TellsWhatItReads) {
  const auto trained = train("run", mixed("0.5,0.5"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  // web trains on 3000 of its tokens, 93 windows; code on 220, 6 windows. 16 samples are 8 of each.
  expect_parts(trained.out,
               {"source    web | 50 % of the samples | 3000 tokens in 2 files | 0.09 epochs in 4 steps",
                "source    train | 50 % of the samples | 220 tokens in 1 file | 1.33 epochs in 4 steps",
                "held out  web: 1 file with 1500 tokens; train: the last 110 tokens of 330", " | epochs 0.09-1.33 |    512 tokens | eta "});
  const auto last = lines("run", "loss").back();
  EXPECT_EQ(last.at("tokens_seen"), 512);
  EXPECT_EQ(last.at("sources"), (Words{"web", "train"}));
  EXPECT_EQ(last.at("source_tokens"), (std::vector<int>{256, 256}));
  EXPECT_DOUBLE_EQ(last.at("source_epochs").at(1), 8.0 / 6);
  EXPECT_FALSE(last.contains("epoch"));
  expect_parts(read_file(folder_ / "run/report.html"),
               {"<h2>Sources of the data</h2>", "<td>web</td><td>256</td><td>50.00 %</td><td>0.09</td>"});
  const auto inspected = run_millrace(joined(
      {"inspect", "configs/runs/tiny.toml", "data.text=", "train.steps=4", "train.warmup_steps=1", "train.sequence=32", "sample.tokens=0"},
      mixed("0.5,0.5")));
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  expect_parts(inspected.out, {"source    web | 50 % of the samples"});
  const auto listed = run_millrace(joined({"data", "inspect", "data.held_out=3"}, mixed("0.2,0.8")));
  EXPECT_EQ(listed.code, 0) << listed.err;
  expect_parts(listed.out, {"source    web | 20 % of the samples | 3000 tokens in 2 files for training",
                            "1500 tokens  " + folder_ / "web/2.bin", "source    train | 80 % ", "held out  web: 1 file"});
  expect_parts(run_millrace({"data", "inspect", folder_ / "web"}).out, {"data      4500 tokens in 3 files", "16 bits per token"});
}

TEST_F(Mixture, AnErrorNamesTheSource) {
  folder_.write("web/2.bin", token_bytes(1500, 1, 400));
  expect_failure(train("run", mixed("1,1")), ExitCode::data, {"source web: ", "web/2.bin: token "});
  folder_.write("web/2.bin", token_bytes(1500, 1));
  expect_failure(train("run", mixed("1,1", {"train.sequence=300"})), ExitCode::data,
                 {"source train: 220 tokens for training, expected 301 or more"});
  expect_failure(train("run", mixed("1,1,1")), ExitCode::config, {"data.weights = [1.0, 1.0, 1.0], expected 2 numbers"});
}

TEST_F(Mixture, ASourceAloneHasTheBitsOfARunWithoutWeights) {
  const Words web{"data.tokens=" + folder_ / "web", "data.held_out=3"};
  ASSERT_EQ(train("plain", web).code, 0);
  ASSERT_EQ(train("weighted", joined(web, {"data.weights=5"})).code, 0);
  EXPECT_EQ(state("weighted"), state("plain"));
  EXPECT_EQ(evaluation("weighted"), evaluation("plain"));
}

}  // namespace
}  // namespace millrace::tests
