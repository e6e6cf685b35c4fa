#include "tests/training/layouts.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/training/small_run.hpp"

// In every layout a run has the bits of one rank. A sample of each kind is here, all combinations are in layouts_full_test.cpp.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  const auto add = [&](const Numbers& numbers, const std::vector<std::string>& names) {
    for (const auto& name : names) all.push_back({numbers, layout(name)});
  };
  add({"fp32", false, 1, 1},
      {"gpipe_in_1", "1f1b_in_1", "zb_h1_in_1", "1f1b_in_4", "warmup", "looped_1", "own_stages", "halves", "full", "by_label", "by_stage"});
  add({"fp32", true, 1, 2}, {"1f1b_in_1", "zb_h1_in_2", "chunks_of_one_rank", "uneven"});
  add({"bf16", true, 1, 1}, {"gpipe_in_1", "zb_h1_in_4", "1f1b_in_2", "looped_1", "uneven", "halves_split", "full_split"});
  add({"bf16", false, 2, 1}, {"1f1b_in_1", "looped_1", "by_label"});
  return all;
}

class Layouts : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(Layouts, HaveTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Some, Layouts, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

TEST(OtherNumbers, AreSeen) {
  std::set<std::string> hashes;
  const std::vector<Numbers> all{{"fp32", false, 1, 1}, {"bf16", false, 1, 1}, {"fp32", true, 1, 1}, {"fp32", false, 1, 2}};
  for (const auto& numbers : all) {
    const auto outcome = run_small(1, numbers.words());
    ASSERT_EQ(outcome.code, 0) << outcome.said;
    hashes.insert(outcome.hash);
  }
  EXPECT_EQ(hashes.size(), all.size()) << "a test that compares hashes must be able to fail";
}

}  // namespace
}  // namespace millrace::tests
