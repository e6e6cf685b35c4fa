// The completions that shells offer with the scripts of `millrace completion`.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "configs/schema.hpp"
#include "runtime/schedule/schedule.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

/// Runs a script in the source folder. Returns its output lines, sorted.
Words run_script(const std::string& shell, const std::string& script) {
  const TemporaryFolder folder;
  const auto file = folder.write("script", script);
  const std::string line = "cd '" + source_path() + "' && " + shell + " '" + file + "' > '" + folder / "out" + "' 2>&1";
  EXPECT_EQ(std::system(line.c_str()), 0) << read_file(folder / "out");
  std::istringstream lines(read_file(folder / "out"));
  Words words;
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  std::sort(words.begin(), words.end());
  return words;
}

Words sorted(Words words) {
  std::sort(words.begin(), words.end());
  return words;
}

bool has(const Words& words, const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); }

class Completion : public ::testing::Test {
 protected:
  /// What bash would insert for the last word of `line`, obtained by calling the completion function as bash does.
  static Words in_bash(const std::string& line) {
    return run_script("bash", script("bash") + "COMP_LINE=" + quoted(line) + "\nCOMP_POINT=${#COMP_LINE}\n_millrace\n" +
                                  "[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  }
  static std::string script(const std::string& shell) {
    const auto printed = run_millrace({"completion", shell});
    EXPECT_EQ(printed.code, 0) << printed.err;
    return printed.out + "\n";
  }
  static std::string quoted(const std::string& text) { return "'" + text + "'"; }
};

TEST_F(Completion, OffersCommands) {
  const auto all = in_bash("millrace ");
  for (const char* command : {"train", "eval", "schedule", "completion", "--help", "--version"}) EXPECT_TRUE(has(all, command)) << command;
  EXPECT_EQ(in_bash("millrace re"), (Words{"rehearse", "replay", "report"}));
  EXPECT_EQ(in_bash("millrace schedule "), (Words{"check", "list", "show", "simulate"}));
  EXPECT_EQ(in_bash("millrace nonsense "), Words{});
}

TEST_F(Completion, TheManualPageHasEveryCommandAndOption) {
  const auto page = script("man");
  const auto has_line = [&](const std::string& line) { return page.find("\n" + line + "\n") != std::string::npos; };
  for (const char* line : {".TH MILLRACE 1", ".SS millrace train", ".SS millrace ckpt export\\-hf", ".SS millrace completion man",
                           "\\fB\\-\\-stage\\fR \\fIS\\fR", "\\fB\\-\\-measure\\fR"})
    EXPECT_TRUE(has_line(line)) << line;
  // A line that begins with a dot or a quote is a macro; no text may be one by accident.
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const bool macro = line.starts_with(".TH ") || line.starts_with(".SH ") || line.starts_with(".SS ") || line == ".TP" || line == ".PP" ||
                       line.starts_with(".\\\"");
    EXPECT_TRUE(macro || (!line.starts_with(".") && !line.starts_with("'"))) << line;
  }
}

TEST_F(Completion, OffersTheNamesOfRuns) {
  EXPECT_EQ(in_bash("millrace train quick"), (Words{"quickstart"}));
  for (const char* command : {"train", "inspect", "profile", "config show"})
    EXPECT_TRUE(has(in_bash(std::string("millrace ") + command + " "), "tiny")) << command;
  EXPECT_FALSE(has(in_bash("millrace ckpt ls "), "tiny"));
}

TEST_F(Completion, OffersTheOptionsOfTheCommand) {
  EXPECT_EQ(in_bash("millrace inspect --"), (Words{"--choices", "--help", "--log-level", "--program", "--stage"}));
  EXPECT_EQ(in_bash("millrace ckpt hash --q"), (Words{"--quick"}));
  EXPECT_EQ(in_bash("millrace schedule check --s"), (Words{"--slots"}));
  EXPECT_EQ(in_bash("millrace schedule show 1f1b --ranks 4 --s"), (Words{"--seed", "--slow", "--stall", "--svg"}));
}

TEST_F(Completion, OffersTheValuesOfAnOption) {
  EXPECT_EQ(in_bash("millrace parity DIR --dtype "), (Words{"bf16", "fp32"}));
  EXPECT_EQ(in_bash("millrace parity DIR --dtype=b"), (Words{"bf16"}));      // bash replaces only what follows "="
  EXPECT_EQ(in_bash("millrace inspect --log-level w"), (Words{"warning"}));  // every command has it
  EXPECT_EQ(in_bash("millrace inspect --program w"), (Words{"weight_gradient"}));
  EXPECT_EQ(in_bash("millrace parity DIR --schedule "), sorted(runtime::schedule_names()));
  EXPECT_EQ(in_bash("millrace inspect --stage "), Words{});  // a number
}

TEST_F(Completion, OffersKeysAndTheirValues) {
  auto keys = configs::key_names();
  std::erase_if(keys, [](const std::string& key) { return !key.starts_with("pipeline."); });
  for (auto& key : keys) key += "=";
  EXPECT_EQ(in_bash("millrace train configs/runs/tiny.toml pipeline."), sorted(keys));
  EXPECT_EQ(in_bash("millrace train configs/runs/tiny.toml pipeline.schedule=zb-h"), (Words{"zb-h1", "zb-h2"}));
  EXPECT_EQ(in_bash("millrace train configs/runs/tiny.toml model.family="), sorted(configs::find_key("model.family")->choices));
  EXPECT_TRUE(has(in_bash("millrace train model.preset=t"), "tiny"));
  EXPECT_EQ(in_bash("millrace config keys train.step"), (Words{"train.steps"}));
}

TEST_F(Completion, OffersFilesAndSchedules) {
  EXPECT_EQ(in_bash("millrace train configs/runs/tin"), (Words{"configs/runs/tiny.toml"}));
  EXPECT_EQ(in_bash("millrace train configs/runs/tiny.toml data.text=configs/runs/tin"), (Words{"configs/runs/tiny.toml"}));
  EXPECT_EQ(in_bash("millrace schedule show 1f"), (Words{"1f1b"}));
  EXPECT_EQ(in_bash("millrace parity configs/ru"), (Words{"configs/runs"}));  // a folder
  EXPECT_EQ(in_bash("millrace parity configs/runs/tin"), Words{});            // files are not offered
}

TEST_F(Completion, OffersTheSameInZsh) {
  if (std::system("command -v zsh > /dev/null") != 0) GTEST_SKIP() << "zsh is not installed (Debian's package zsh): its script is not run";
  const auto in_zsh = [](const std::string& line, const std::string& current) {
    // Stubs for the builtins that work only within the line editor; compadd filters by the prefix, as the builtin does.
    return run_script("zsh -f",
                      "compdef() { : }\n_files() { print -r -- \"files $*\" }\ncompset() { : }\n"
                      "compadd() { local word; while [[ $1 != -- ]]; do shift; done; shift; for word in \"$@\"; do [[ $word == $PREFIX* ]] "
                      "&& print -r -- $word; done; true }\n" +
                          script("zsh") + "words=(" + line + " '" + current + "')\nCURRENT=${#words}\nPREFIX='" + current +
                          "'\n_millrace\n");
  };
  EXPECT_EQ(in_zsh("millrace", "re"), (Words{"rehearse", "replay"}));
  EXPECT_EQ(in_zsh("millrace inspect", "--"), (Words{"--help", "--program", "--stage"}));
  EXPECT_EQ(in_zsh("millrace parity DIR --dtype", ""), (Words{"bf16", "fp32"}));
  EXPECT_EQ(in_zsh("millrace train run.toml", "pipeline.schedule=zb-h"), (Words{"pipeline.schedule=zb-h1", "pipeline.schedule=zb-h2"}));
  EXPECT_EQ(in_zsh("millrace parity", "configs/ru"), (Words{"files -/"}));
}

}  // namespace
}  // namespace millrace::tests
