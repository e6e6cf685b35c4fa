// Typing errors: each gives one message that names the place and what was expected, and the exit code of docs/errors.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

struct Mistake {
  std::string name;
  Words words;
  ExitCode code;
  Words parts;  // expected in the message
};

constexpr const char* tiny = "configs/runs/tiny.toml";

void PrintTo(const Mistake& mistake, std::ostream* stream) { *stream << mistake.name; }

class CommandLine : public ::testing::TestWithParam<Mistake> {};

TEST_P(CommandLine, OneMessageAndItsCode) {
  const auto& mistake = GetParam();
  const auto result = run_millrace(mistake.words);
  expect_failure(result, mistake.code, mistake.parts);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Table, CommandLine,
    ::testing::Values(
        Mistake{"command", {"inspekt", tiny}, ExitCode::usage, {"unknown command inspekt", "inspect"}},
        Mistake{"option", {"inspect", tiny, "--stagee", "1"}, ExitCode::usage, {"unknown option --stagee", "--stage"}},
        Mistake{"option_before_the_command", {"--verison"}, ExitCode::usage, {"unknown option --verison, expected --version"}},
        Mistake{"option_of_no_command", {"--verison", "doctor"}, ExitCode::usage, {"unknown option --verison, expected --version"}},
        Mistake{"option_without_a_command", {"--log-level", "debug"}, ExitCode::usage, {"--log-level debug without a command"}},
        Mistake{"log_level_before_the_command", {"--log-level", "debug", "inspekt"}, ExitCode::usage, {"unknown command inspekt"}},
        Mistake{"log_level_behind_no_command", {"inspekt", "--log-level", "debug"}, ExitCode::usage, {"unknown command inspekt"}},
        Mistake{"log_level_without_value", {"--log-level"}, ExitCode::usage, {"--log-level without a value"}},
        Mistake{"log_level_of_a_command", {"--log-level=debgu", "doctor"}, ExitCode::usage, {"--log-level debgu", "debug"}},
        Mistake{"option_without_value", {"inspect", tiny, "--stage"}, ExitCode::usage, {"--stage without a value"}},
        Mistake{"flag_with_value", {"plan", tiny, "--measure=3"}, ExitCode::usage, {"--measure=3, expected --measure alone"}},
        Mistake{"section_as_key", {"inspect", tiny, "train=3"}, ExitCode::config, {"unknown key train"}},
        Mistake{"list_in_quotes", {"inspect", tiny, "data.text=[\"a]"}, ExitCode::config, {"a shell removes quotes: data.text=a,b"}},
        Mistake{"list_without_quotes", {"train", tiny, "data.text=[no/such]"}, ExitCode::data, {"data.text = no/such: no such file"}},
        Mistake{"option_no_number", {"inspect", tiny, "--stage", "first"}, ExitCode::usage, {"--stage first", "whole number"}},
        Mistake{"stage_beyond", {"inspect", tiny, "--stage", "9"}, ExitCode::usage, {"--stage 9", "from 0 to 0"}},
        Mistake{"program",
                {"inspect", tiny, "--stage", "0", "--program", "foward"},
                ExitCode::usage,
                {"--program foward", "did you mean forward"}},
        Mistake{"program_without_stage", {"inspect", tiny, "--program", "forward"}, ExitCode::usage, {"without --stage"}},
        Mistake{"key", {"inspect", tiny, "train.stepz=3"}, ExitCode::config, {"command line", "unknown key train.stepz", "train.steps"}},
        Mistake{
            "type", {"inspect", tiny, "train.steps=many"}, ExitCode::config, {"command line", "train.steps = many", "an integer from 1"}},
        Mistake{"range", {"inspect", tiny, "train.batch=0"}, ExitCode::config, {"train.batch = 0", "an integer from 1", "rows"}},
        Mistake{"choice", {"inspect", tiny, "pipeline.schedule=gpip"}, ExitCode::config, {"pipeline.schedule", "did you mean gpipe"}},
        Mistake{"no_file", {"inspect", "no/such/run.toml"}, ExitCode::config, {"no/such/run.toml"}},
        Mistake{"preset", {"inspect", tiny, "model.preset=tinny"}, ExitCode::config, {"tinny", "tiny"}},
        Mistake{"option_of_another",
                {"inspect", tiny, "--replicas", "3"},
                ExitCode::usage,
                {"unknown option --replicas", "millrace inspect --help"}},
        Mistake{"option_of_none", {"--stage", "1"}, ExitCode::usage, {"unknown option --stage"}},
        Mistake{"option_short", {"inspect", tiny, "-s", "1"}, ExitCode::usage, {"unknown option -s"}},
        Mistake{"option_equals", {"inspect", tiny, "--stage=first"}, ExitCode::usage, {"--stage first", "whole number"}},
        Mistake{"option_empty", {"inspect", tiny, "--stage="}, ExitCode::usage, {"--stage , expected a whole number"}},
        Mistake{"option_choice", {"parity", "x", "--dtype", "fp61"}, ExitCode::usage, {"--dtype fp61", "fp32 or bf16"}},
        Mistake{"help_of_none", {"help", "inspekt"}, ExitCode::usage, {"unknown command inspekt", "did you mean inspect"}},
        Mistake{"no_model", {"inspect"}, ExitCode::config, {"model.preset"}},
        Mistake{"too_many_stages", {"inspect", tiny, "pipeline.ranks=9"}, ExitCode::config, {"9", "layers"}},
        Mistake{"layout_drops_a_layer",
                {"inspect", tiny, "pipeline.ranks=2", "pipeline.layout=E t | H"},
                ExitCode::config,
                {"layers", "E t | H"}},
        Mistake{"both_kinds_of_data", {"inspect", tiny, "data.tokens=a.bin"}, ExitCode::config, {"data.text", "data.tokens", "both"}},
        Mistake{"accumulators", {"inspect", tiny, "train.accumulators=3"}, ExitCode::config, {"train.accumulators = 3", "does not divide"}},
        Mistake{"config_word", {"config", "shwo"}, ExitCode::usage, {"unknown command shwo", "did you mean show"}},
        Mistake{"config_nothing", {"config"}, ExitCode::usage, {"show", "keys"}},
        Mistake{"far_config_key",
                {"config", "keys", "nope.key"},
                ExitCode::config,
                {"unknown key nope.key; sections are ", "train, ", "`millrace config keys` prints every key"}},
        Mistake{"far_schedule",
                {"schedule", "show", "nope"},
                ExitCode::config,
                {"nope is neither a built-in schedule nor a file; built in are ", "1f1b, "}},
        Mistake{"config_key", {"config", "keys", "train.stepz"}, ExitCode::config, {"unknown key train.stepz", "train.steps"}},
        Mistake{"key_by_initials",
                {"inspect", tiny, "train.lr=1"},
                ExitCode::config,
                {"unknown key train.lr; did you mean train.learning_rate?"}},
        Mistake{"key_far_from_all",
                {"inspect", tiny, "train.qqqqqqqq=1"},
                ExitCode::config,
                {"unknown key train.qqqqqqqq; `millrace config keys` prints every key"}},
        Mistake{"model_for_a_run",
                {"inspect", "llama3.2-1b"},
                ExitCode::config,
                {"llama3.2-1b: a preset of a model, not of a run", "quickstart", "model.preset=llama3.2-1b"}},
        Mistake{"ckpt_word", {"ckpt", "verfy", "x"}, ExitCode::usage, {"unknown command verfy", "did you mean verify"}},
        Mistake{"ckpt_nothing", {"ckpt"}, ExitCode::usage, {"export-hf"}},
        Mistake{"ckpt_paths", {"ckpt", "hash"}, ExitCode::usage, {"hash with 0 paths"}},
        Mistake{"ckpt_dtype", {"ckpt", "export-hf", "a", "b", "--dtype", "fp16"}, ExitCode::usage, {"--dtype fp16", "fp32 or bf16"}},
        Mistake{"schedule_nothing", {"schedule"}, ExitCode::usage, {"list, show, check, simulate"}},
        Mistake{"schedule_word", {"schedule", "shwo", "1f1b"}, ExitCode::usage, {"unknown command shwo", "did you mean show"}},
        Mistake{"schedule_no_name", {"schedule", "show"}, ExitCode::usage, {"show with 0 names", "zb-h1"}},
        Mistake{"schedule_name",
                {"schedule", "show", "zb-h3", "--ranks", "2", "--microbatches", "4"},
                ExitCode::config,
                {"zb-h3 is neither", "did you mean zb-h"}},
        Mistake{"schedule_no_ranks",
                {"schedule", "show", "1f1b", "--microbatches", "4"},
                ExitCode::usage,
                {"1f1b without --ranks", "--ranks P and --microbatches M"}},
        Mistake{"schedule_no_microbatches", {"schedule", "check", "1f1b", "--ranks", "4"}, ExitCode::usage, {"without --microbatches"}},
        Mistake{"schedule_sizes",
                {"schedule", "show", "dualpipe", "--ranks", "3", "--microbatches", "8"},
                ExitCode::config,
                {"dualpipe", "even"}},
        Mistake{"schedule_chunks",
                {"schedule", "show", "zb-v", "--ranks", "4", "--microbatches", "8", "--chunks", "3"},
                ExitCode::config,
                {"zb-v has two chunks"}},
        Mistake{"schedule_costs",
                {"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", "1,2"},
                ExitCode::usage,
                {"--costs 1,2", "F,I,W,c"}},
        Mistake{"schedule_no_cost",
                {"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", "1,x,1"},
                ExitCode::usage,
                {"--costs \"x\"", "a number"}},
        Mistake{"schedule_slow",
                {"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "2", "--slow", "2:1.3"},
                ExitCode::usage,
                {"--slow 2:1.3", "from 0 to 1"}},
        Mistake{"schedule_seed",
                {"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "2", "--seed", "3"},
                ExitCode::usage,
                {"--seed without --jitter"}},
        Mistake{"schedule_option", {"schedule", "show", "1f1b", "--rank", "2"}, ExitCode::usage, {"unknown option --rank", "--ranks"}},
        Mistake{"doctor_words", {"doctor", "me"}, ExitCode::usage, {"me", "no arguments"}}),
    [](const auto& mistake) { return mistake.param.name; });

TEST(CommandLine, AWrongKeyInAFileIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.toml", "[train]\nsteps = 3\nbatchs = 2\n");
  expect_failure(run_millrace({"inspect", file}), ExitCode::config, {file + ":3:1", "train.batchs", "train.batch?"});
}

TEST(CommandLine, AWrongVariableIsNamed) {
  expect_failure(run_millrace({"inspect", tiny}, "MILLRACE_TRAIN_BATCH=none"), ExitCode::config, {"environment MILLRACE_TRAIN_BATCH"});
}

TEST(CommandLine, HelpListsEveryCommand) {
  const auto result = run_millrace({"--help"});
  EXPECT_EQ(result.code, 0);
  expect_parts(result.out, {"train", "parity", "inspect", "ckpt", "config", "schedule", "doctor"});
  EXPECT_EQ(run_millrace({}).code, static_cast<int>(ExitCode::usage));
}

TEST(CommandLine, EveryCommandHasHelp) {
  // The words of --help, by which a command of a group is found too.
  const std::function<int(Words)> count = [&](const Words& path) {
    const auto result = run_millrace(joined(path, {"--help"}));
    EXPECT_EQ(result.code, 0) << result.err;
    expect_parts(result.out, {"Usage: millrace", "--help"});
    std::istringstream lines(result.out.substr(std::min(result.out.size(), result.out.find("\nCommands:\n"))));
    int found = 0;
    for (std::string line; std::getline(lines, line);)
      if (line.size() > 3 && line.starts_with("  ") && line[2] != ' ')
        found += 1 + count(joined(path, {line.substr(2, line.find(' ', 2) - 2)}));
    return found;
  };
  EXPECT_GE(count({}), 27);
}

TEST(CommandLine, HelpBeforeACommandIsItsHelp) {
  const auto result = run_millrace({"help", "replay"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, run_millrace({"replay", "--help"}).out);
  expect_parts(result.out, {"Usage: millrace replay RUN_DIRECTORY", "--step N", "--repeat R", "Default: 1"});
}

TEST(CommandLine, AProcessOfAJobSaysItOnce) {
  for (const Words& words : {Words{"train", "--recrod", "hashes"}, Words{"trian"}}) {
    const auto result = run_millrace(words, on_processes(3));
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage)) << result.err;
    const auto first = result.err.find("unknown");
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("unknown", first + 1), std::string::npos) << result.err;
  }
}

TEST(CommandLine, ValuesAreTakenAsTheyAre) {
  // Text that looks like an option, or like a list or a file in CLI11's own syntax.
  for (const char* value : {"--stage", "{}", "[a,b]", "%%"})
    expect_failure(run_millrace({"inspect", tiny, "--stage", value}), ExitCode::usage, {fmt::format("--stage {}, expected", value)});
  expect_failure(run_millrace({"inspect", tiny, "--stage", "1", "--stage", "x"}), ExitCode::usage, {"--stage x"});
  expect_failure(run_millrace({"schedule", "simulate", "1f1b", "--ranks", "2", "--microbatches", "2", "--slow", "9:2", "--slow", "1:2"}),
                 ExitCode::usage, {"--slow 9:2"});
}

TEST(CommandLine, WhatRunsARunWantsOne) {
  for (const char* command : {"train", "plan"}) {
    const auto result = run_millrace({command});
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::usage)) << command;
    expect_parts(result.err, {"no run description, expected RUN.toml or key=value"});
  }
}

// Asked of every command and of every part of one.
TEST(CommandLineHelp, IsPrintedByItsShortName) {
  for (const Words& command : {Words{}, {"train"}, {"ckpt"}, {"ckpt", "ls"}, {"data", "tokenize"}, {"schedule", "show"}, {"doctor"}}) {
    const auto brief = run_millrace(joined(command, {"-h"})), whole = run_millrace(joined(command, {"--help"}));
    EXPECT_EQ(brief.code, 0) << brief.err;
    EXPECT_EQ(brief.out, whole.out);
    expect_parts(brief.out, {"Usage: millrace", "-h,--help"});
    EXPECT_EQ(run_millrace(joined({"help"}, command)).out, whole.out);
  }
}

}  // namespace
}  // namespace millrace::tests
