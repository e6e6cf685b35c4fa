#include <filesystem>
#include <regex>

#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

TEST(Version, NamesCommitBuildAndLibraries) {
  const auto result = run_millrace({"--version"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::regex expected(
      "millrace [0-9.]+\n"
      "commit     ([0-9a-f]{12}(-dirty)?|unknown)\n"
      "build      [A-Za-z]+, g\\+\\+ [0-9.]+.*, C\\+\\+20\n"
      "libraries  CAF [0-9.]+, Boost [0-9.]+, Open MPI [0-9.]+, TOML\\+\\+ [0-9.]+\n"
      "devices    .*CUDA.*\n");
  EXPECT_TRUE(std::regex_match(result.out, expected)) << result.out;
}

/// The program alone in a folder of its own, as after `cp`.
class CopiedProgram : public testing::Test {
 protected:
  CopiedProgram() {
    std::filesystem::create_directories(folder_.path() / "bin");
    std::filesystem::copy_file(build_path("millrace"), folder_.path() / "bin/millrace");
  }
  /// Runs it in an empty folder.
  [[nodiscard]] std::pair<int, std::string> run(const std::string& words, const std::string& variables = "") const {
    std::filesystem::create_directories(folder_.path() / "elsewhere");
    const std::string line =
        "cd '" + folder_ / "elsewhere" + "' && " + variables + " ../bin/millrace " + words + " > ../out 2>&1 < /dev/null";
    const int status = std::system(line.c_str());
    return {WEXITSTATUS(status), read_file(folder_ / "out")};
  }
  TemporaryFolder folder_;
};

TEST_F(CopiedProgram, FindsPresetsBesideIt) {
  const auto models = folder_.path() / "share/millrace/configs/models";
  std::filesystem::create_directories(models);
  std::filesystem::copy_file(source_path("configs/models/tiny.toml"), models / "small.toml");
  const auto [code, text] = run("config show model.preset=small");
  EXPECT_EQ(code, 0) << text;
  expect_parts(text, {"share/millrace/configs/models/small.toml"});
  const auto [failed, message] = run("config show model.preset=smal");
  EXPECT_EQ(failed, static_cast<int>(ExitCode::config));
  expect_parts(message, {"model.preset = smal, which is not in " + models.string() + ", expected one of small; did you mean small?"});
}

TEST_F(CopiedProgram, FindsPresetsWhereTheEnvironmentSays) {
  const auto models = folder_.path() / "data/configs/models";
  std::filesystem::create_directories(models);
  std::filesystem::copy_file(source_path("configs/models/tiny.toml"), models / "small.toml");
  const auto [code, text] = run("config show model.preset=small", "MILLRACE_SHARE=../data");
  EXPECT_EQ(code, 0) << text;
  const auto [failed, message] = run("config show model.preset=small", "MILLRACE_SHARE=../dat");
  EXPECT_EQ(failed, static_cast<int>(ExitCode::config));
  expect_parts(message, {"MILLRACE_SHARE = ../dat, expected a folder with configs/models"});
}

TEST_F(CopiedProgram, FallsBackToTheSourcesOfItsBuild) {
  const auto [code, text] = run("config show tiny data.text=x");
  EXPECT_EQ(code, 0) << text;
  expect_parts(text, {source_path("configs/models/tiny.toml")});
}

}  // namespace
}  // namespace millrace::tests
