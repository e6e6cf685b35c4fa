#include "tests/support/skipped_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace millrace::tests {
namespace {

constexpr int nothing_ran = 77;

/// The reason of a skipped result, on one line.
std::string sentence(const ::testing::TestResult& result) {
  for (int part = 0; part < result.total_part_count(); ++part) {
    const auto& part_result = result.GetTestPartResult(part);
    if (!part_result.skipped()) continue;
    std::string text = part_result.message();
    if (const auto head = text.find("Skipped\n"); head == 0) text.erase(0, 8);
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
  return "without a sentence";
}

void report(const std::string& name, const ::testing::TestResult& result) {
  std::printf("skipped: %s: %s\n", name.c_str(), sentence(result).c_str());
}

}  // namespace

int run_all_tests() {
  const int failed = RUN_ALL_TESTS();
  const auto& all = *::testing::UnitTest::GetInstance();
  int ran = 0, skipped = 0;
  if (all.ad_hoc_test_result().Skipped()) report("all", all.ad_hoc_test_result()), ++skipped;  // an environment skipped the whole program
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      if (!test.should_run()) continue;
      if (!test.result()->Skipped()) {
        ran += test.result()->elapsed_time() > 0 || test.result()->start_timestamp() > 0 ? 1 : 0;
        continue;
      }
      ++skipped;
      report(std::string(suite.name()) + "." + test.name(), *test.result());
    }
  }
  std::fflush(stdout);
  return failed == 0 && ran == 0 && skipped > 0 ? nothing_ran : failed;
}

}  // namespace millrace::tests
