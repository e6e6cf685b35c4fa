#include <gtest/gtest.h>

#include "tests/support/skipped_cases.hpp"
#include "tests/training/examined_run.hpp"
#include "tests/training/expectations.hpp"
#include "tests/training/small_run.hpp"

// Under mpirun -np 4: which parts of the model each process has, and what is sent over MPI.
namespace millrace::tests {
namespace {

TEST(FourProcesses, HoldOneStageEachAndSendBoundariesAlone) {
  // Every process needs the same data: their path does not matter, their content does.
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  run_examined(folder / "text", {}, [](actors::Pipeline& pipeline) {
    EXPECT_EQ(pipeline.ranks().size(), 1U);
    expect_own_parameters_alone(pipeline);
    expect_boundary_traffic(pipeline, 3, std::int64_t{2} * 32 * 32 * 4);
  });
}

}  // namespace
}  // namespace millrace::tests

int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);
  return millrace::tests::run_all_tests();
}
