#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/text.hpp"

// What is reported to CTest about cases that cannot run, and what CTest prints about them.
namespace millrace::tests {
namespace {

// Run only by the tests below.
TEST(DISABLED_Example, IsSkipped) { GTEST_SKIP() << "there is no such machine"; }
TEST(DISABLED_Example, Runs) {}

struct Ended {
  int code;
  std::string text;
};

Ended run(const std::string& command) {
  const TemporaryFolder folder;
  const int status = std::system((command + " > '" + folder / "out" + "' 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder / "out")};
}

Ended run_examples(const std::string& filter) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  return run("'" + self + "' --gtest_also_run_disabled_tests --gtest_filter='" + filter + "'");
}

TEST(SkippedCases, AProgramSaysWhichAndWhy) {
  const auto some = run_examples("DISABLED_Example.*");
  EXPECT_EQ(some.code, 0) << some.text;
  expect_parts(some.text, {"\nskipped: DISABLED_Example.IsSkipped: there is no such machine\n"});
  EXPECT_EQ(some.text.find("skipped: DISABLED_Example.Runs"), std::string::npos) << some.text;
}

TEST(SkippedCases, AProgramOfWhichNothingRanIsSkippedItself) {
  EXPECT_EQ(run_examples("DISABLED_Example.IsSkipped").code, 77);
  EXPECT_EQ(run_examples("DISABLED_Example.Runs").code, 0);
}

TEST(SkippedCases, CTestCountsThemBySentence) {
  const TemporaryFolder build;
  const auto summary = [&](const std::string& log) {
    build.write("Testing/Temporary/LastTest.log", log);
    const auto run_result = run("python3 '" + source_path("tests/support/skipped_cases.py") + "' '" + build.path().string() + "'");
    EXPECT_EQ(run_result.code, 0) << run_result.text;
    return run_result.text;
  };
  EXPECT_EQ(summary("1/1 Testing: one\n[  PASSED  ] 3 tests.\n"), "\n0 cases were skipped\n");
  EXPECT_EQ(summary("1/3 Testing: one\nskipped: A.a: there is no GPU\nskipped: A.b: there is no GPU\nskipped: A.b: there is no GPU\n"
                    "2/3 Testing: two\nskipped: C.c: there is no GPU\nskipped: C.d: nothing is installed\n"
                    "3/3 Testing: page\nskipped: chromium is not installed\n"),
            "\n5 cases were skipped:\n"
            "  chromium is not installed\n    page: all\n"
            "  nothing is installed\n    two: C.d\n"
            "  there is no GPU\n    one: A.a, A.b\n    two: C.c\n");
}

}  // namespace
}  // namespace millrace::tests
