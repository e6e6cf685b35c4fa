#include <gtest/gtest.h>

#include "tests/training/mesh.hpp"

// All combinations of copies, pipelines and processes: takes minutes.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  for (const auto& pipeline : mesh_pipelines()) {
    for (const bool tied : {false, true}) {
      for (const int copies : {2, 4}) {
        for (const int processes : {1, 2, 4})
          for (const bool divides : {false, true}) {
            if (copies * pipeline.ranks % processes > 0) continue;
            const LayoutCase one = mesh_run(pipeline, copies, processes, tied);
            all.push_back(divides ? divided(one) : one);
          }
        all.push_back(mesh_run(pipeline, copies, 1, tied, 8, "bf16"));
        all.push_back(divided(all.back()));
      }
    }
  }
  return all;
}

class EveryMesh : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(EveryMesh, HasTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, EveryMesh, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

// Copies whose number is no power of two send several sums each.
TEST(EveryMesh, AlsoWithThreeCopies) {
  LayoutCase three = mesh_run(mesh_pipelines().front(), 3, 1, true, 6);
  three.numbers.microbatches = 12;
  expect_the_bits_of_one_rank(three);
  expect_the_bits_of_one_rank(divided(three));
}

}  // namespace
}  // namespace millrace::tests
