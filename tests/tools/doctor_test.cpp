#include <gtest/gtest.h>

#include "kernels/base/cpu_features.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

TEST(Doctor, TellsOfEverythingAndEndsWell) {
  const auto result = run_millrace({"doctor"});
  EXPECT_EQ(result.code, 0) << result.err;
  expect_parts(result.out,
               {"Open MPI ", "g++ ", "cores", "matmul fp32", "matmul bf16", " together", "none depends on how many rows its expert got",
                "memory", "huge pages", "disk", "mpirun", "cuda", kernels::describe(kernels::cpu_features())});
}

TEST(Doctor, WarnsOfALoweredInstructionSet) {
  const auto result = run_millrace({"doctor"}, "MILLRACE_ISA=baseline");
  EXPECT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"warn  MILLRACE_ISA   baseline\n"});
}

TEST(Doctor, AnInstructionSetThatIsNoneEndsEveryCommand) {
  for (const Words& command : {Words{"doctor"}, Words{"schedule", "list"}}) {
    const auto result = run_millrace(command, "MILLRACE_ISA=avx-2");
    EXPECT_EQ(result.code, 3) << result.err;
    expect_parts(result.err, {"MILLRACE_ISA is \"avx-2\", expected baseline, avx2, avx512, amx_model; did you mean avx2?\n"});
    EXPECT_EQ(result.out, "");
  }
}

TEST(Doctor, WarnsWhereThereIsNoLauncher) {
  const auto result = run_millrace({"doctor"}, "PATH=/nowhere");
  EXPECT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"warn  mpirun         not found in PATH\n"});
}

}  // namespace
}  // namespace millrace::tests
