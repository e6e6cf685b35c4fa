#include <gtest/gtest.h>

#include "tests/training/schedules.hpp"

// Every schedule with every kind of number, in one process and in four: takes minutes.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  for (const auto& schedule : schedule_cases())
    for (const std::string dtype : {"fp32", "bf16"})
      for (const bool tied : {false, true})
        for (const int processes : {1, 2, 4}) all.push_back(schedule_run(schedule, dtype, tied, processes));
  return all;
}

class EverySchedule : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(EverySchedule, HasTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, EverySchedule, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace millrace::tests
