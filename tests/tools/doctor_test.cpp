#include <gtest/gtest.h>

#include "kernels/base/cpu_features.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

TEST(Doctor, TellsOfEverythingAndEndsWell) {
  const auto result = run_millrace({"doctor"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"oneDNN 2.", "Open MPI ", "g++ ", "cores", "matmul fp32", "matmul bf16", "GFLOP/s", "memory", "huge pages",
                           "disk", "mpirun", "cuda"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " in:\n" << result.out;
  EXPECT_NE(result.out.find(kernels::describe(kernels::cpu_features())), std::string::npos) << result.out;
}

TEST(Doctor, WarnsOfALoweredInstructionSet) {
  const auto result = run_millrace({"doctor"}, "MILLRACE_ISA=baseline");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("warn  MILLRACE_ISA   baseline\n"), std::string::npos) << result.out;
}

TEST(Doctor, WarnsWhereThereIsNoLauncher) {
  const auto result = run_millrace({"doctor"}, "PATH=/nowhere");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("warn  mpirun         not found in PATH\n"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace millrace::tests
