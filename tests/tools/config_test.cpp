#include <gtest/gtest.h>

#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// The line of a text that starts with `head`.
std::string line_of(const std::string& text, const std::string& head) {
  const auto begin = text.find("\n" + head);
  if (begin == std::string::npos) return {};
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST(ConfigShow, TellsWhereEveryValueCameFrom) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.toml", "[model]\npreset = \"tiny\"\n[train]\nsteps = 7\nbatch = 3\n");
  const auto result = run_millrace({"config", "show", file, "train.sequence=32"}, "MILLRACE_TRAIN_BATCH=2");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(line_of(result.out, "steps = 7 "), {"# " + file + ":4:1"});
  expect_parts(line_of(result.out, "batch = 2 "), {"# environment MILLRACE_TRAIN_BATCH"});
  expect_parts(line_of(result.out, "sequence = 32 "), {"# command line"});
  expect_parts(line_of(result.out, "hidden_size = "), {"tiny.toml"});
  expect_parts(line_of(result.out, "clip = "), {"# built-in"});
}

TEST(ConfigShow, PrintsWhatLoadsToTheSameRun) {
  const TemporaryFolder folder;
  const auto first = run_millrace({"config", "show", "configs/runs/tiny.toml", "train.seed=9"});
  ASSERT_EQ(first.code, 0) << first.err;
  const auto second = run_millrace({"config", "show", folder.write("again.toml", first.out)});
  ASSERT_EQ(second.code, 0) << second.err;
  expect_parts(line_of(second.out, "seed = 9 "), {"again.toml"});
  const auto values = [](const std::string& text) {
    std::string kept;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const auto end = std::min(text.find('\n', begin), text.size());
      kept += text.substr(begin, std::min(text.find("  #", begin), end) - begin) + "\n";
      begin = end + 1;
    }
    return kept;
  };
  EXPECT_EQ(values(first.out), values(second.out));
}

TEST(ConfigKeys, ThePageIsTheSchema) {
  const auto result = run_millrace({"config", "keys", "--markdown"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, read_source("docs/keys.md")) << "made anew by: millrace config keys --markdown > docs/keys.md";
}

TEST(ConfigKeys, OneKeyByName) {
  const auto result = run_millrace({"config", "keys", "train.batch"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"train.batch\n", "an integer from 1", "rows", "identity", "MILLRACE_TRAIN_BATCH"});
}

TEST(ConfigKeys, AllOfASection) {
  const auto section = run_millrace({"config", "keys", "train"});
  ASSERT_EQ(section.code, 0) << section.err;
  expect_parts(section.out, {"train.batch\n", "train.learning_rate\n", "MILLRACE_TRAIN_STEPS"});
  EXPECT_EQ(section.out.find("\nmodel."), std::string::npos) << section.out;
  EXPECT_EQ(run_millrace({"config", "keys", "train."}).out, section.out);
  EXPECT_EQ(run_millrace({"config", "keys", "trian"}).code, static_cast<int>(ExitCode::config));
}

}  // namespace
}  // namespace millrace::tests
