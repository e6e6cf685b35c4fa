// Every command with a stdout that cannot be written: the result is lost, and the exit code says so.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/tools/trained_run.hpp"

namespace millrace::tests {
namespace {

constexpr const char* tiny = "configs/runs/tiny.toml";

/// The arguments of commands that end with 0 and print something. Every command listed by `millrace --help` is here.
class Output : public ::testing::Test {
 protected:
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// A short training run in its own folder.
  [[nodiscard]] Words training(const std::string& directory) const {
    return {"train",
            tiny,
            "train.threads=1",
            "train.steps=1",
            "train.warmup_steps=1",
            "evaluate.batches=1",
            "sample.tokens=0",
            "data.text=" + run_.data(),
            "run.directory=" + folder_ / directory};
  }
  [[nodiscard]] std::vector<Words> commands() const {
    return {{"--help"},
            {"--version"},
            {"train", "--help"},
            training("trained"),
            {"parity", "tests/golden/hf_llama"},
            {"inspect", tiny},
            {"debug", tiny, "--script", folder_ / "script", "data.text=" + run_.data(), "train.threads=1"},
            {"replay", run_.directory(), "--step", "2"},
            {"compare", folder_ / "a", folder_ / "b"},
            {"generate", "--model", run_.checkpoint(), "--prompt", "a", "--tokens", "2"},
            {"eval", "--model", run_.checkpoint(), "--json", "data.text=" + run_.data()},
            {"ckpt", "ls", run_.directory()},
            {"ckpt", "verify", run_.directory()},
            {"ckpt", "hash", run_.directory()},
            {"ckpt", "export-hf", run_.directory(), folder_ / "export"},
            {"convert", run_.exported(), folder_ / "converted"},
            {"config", "show", tiny},
            {"config", "keys"},
            {"data", "tokenize", "--tokenizer", "byte", "--out", folder_ / "tokens", "--overwrite", run_.data()},
            {"schedule", "list"},
            {"schedule", "show", "1f1b", "--ranks", "2", "--microbatches", "4"},
            {"schedule", "check", "1f1b", "--ranks", "2", "--microbatches", "4"},
            {"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "4"},
            {"profile", tiny, "--steps", "1", "--out", folder_ / "profile", "data.text=" + run_.data(), "train.threads=1"},
            {"report", run_.directory()},
            {"rehearse", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", "1,1,1"},
            {"plan", tiny, "pipeline.ranks=2", "data.text=" + run_.data()},
            {"completion", "bash"},
            {"doctor"}};
  }
  void SetUp() override {
    folder_.write("script", "help\nquit\n");
    for (const char* directory : {"a", "b"}) {
      const auto recorded = run_millrace(with(training(directory), {"--record", "hashes"}));
      ASSERT_EQ(recorded.code, 0) << recorded.err;
    }
  }
  void clear() {
    for (const char* made : {"trained", "export", "converted", "profile"}) std::filesystem::remove_all(folder_ / made);
  }
  static std::string text_of(const Words& words) {
    std::string text;
    for (const auto& word : words) text += word + " ";
    return text;
  }
  const TrainedRun& run_ = TrainedRun::get();
  TemporaryFolder folder_;
};

TEST_F(Output, TheTableHasEveryCommand) {
  std::set<std::string> tried;
  for (const auto& words : commands()) tried.insert(words.front());
  const auto text = run_millrace({"--help"}).out;
  std::istringstream help(text.substr(text.find("\nCommands:\n") + 1));
  int found = 0;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    const auto command = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_TRUE(tried.contains(command)) << command;
    ++found;
  }
  EXPECT_GT(found, 15);
}

TEST_F(Output, WhatCannotBeWrittenIsAnError) {
  struct Place {
    const char* redirection;
    const char* reason;
  };
  for (const auto& place : {Place{"> /dev/full", "No space left on device"}, Place{">&-", "Bad file descriptor"}}) {
    for (const auto& words : commands()) {
      clear();
      const auto result = run_millrace(words, "", place.redirection);
      EXPECT_EQ(result.code, static_cast<int>(ExitCode::storage)) << text_of(words) << place.redirection << "\n" << result.err;
      EXPECT_NE(result.err.find("stdout"), std::string::npos) << text_of(words) << place.redirection << "\n" << result.err;
    }
  }
}

TEST_F(Output, WhatCanBeWrittenIsNone) {
  for (const auto& words : {Words{"--help"}, Words{"inspect", tiny}, training("trained")}) {
    const auto result = run_millrace(words, "", "> /dev/null");
    EXPECT_EQ(result.code, 0) << text_of(words) << result.err;
    EXPECT_EQ(result.err.find("stdout"), std::string::npos) << result.err;
  }
}

TEST_F(Output, AClosedStdoutIsNotTakenByAFile) {
  const auto result = run_millrace(training("trained"), "", ">&-");
  EXPECT_EQ(result.code, static_cast<int>(ExitCode::storage)) << result.err;
  // The run itself is intact: no line of its output went into one of its files.
  EXPECT_EQ(run_millrace({"ckpt", "verify", folder_ / "trained"}).code, 0);
  EXPECT_EQ(read_file(folder_ / "trained/metrics.jsonl").find("pipeline "), std::string::npos);
}

TEST_F(Output, AStderrThatCannotBeWrittenChangesNoExitCode) {
  for (const char* place : {"2> /dev/full", "2>&-"}) {
    EXPECT_EQ(run_millrace({"inspekt"}, "", place).code, static_cast<int>(ExitCode::usage)) << place;
    EXPECT_EQ(run_millrace({"schedule", "list"}, "", place).code, 0) << place;
  }
}

}  // namespace
}  // namespace millrace::tests
