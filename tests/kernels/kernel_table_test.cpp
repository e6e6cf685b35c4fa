#include "kernels/base/kernel_table.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

// Rows that exist in this file only, filled as a backend's folder fills its own.
namespace millrace::kernels::testing {
namespace {

using Mark = void(const ExecutionContext& context, int* component);
using Bytes = std::size_t(int marks, const Processor& processor);
constinit Kernel<Mark> mark_row("mark"), mark_by_one_row("mark_by_one");
constinit Kernel<Bytes> scratch_row("mark_scratch_bytes");

void plain_mark(int* component) { *component = 1; }
void fast_mark(const ExecutionContext& context, int* component) { *component = 10 * context.threads(); }
std::size_t plain_bytes(int marks, const Processor&) { return 100 * static_cast<std::size_t>(marks); }
std::size_t fast_bytes(int marks, const Processor& processor) { return static_cast<std::size_t>(marks * processor.threads); }
std::size_t device_bytes(int, const Processor&) { return 7; }

const InTable in_table[] = {
    {Backend::reference, mark_row, without_context<plain_mark>},
    {Backend::cpu, mark_row, fast_mark},
    {Backend::cpu, mark_by_one_row, fast_mark},
    {Backend::reference, scratch_row, plain_bytes},
    {Backend::cpu, scratch_row, fast_bytes},
    {Backend::cuda, scratch_row, device_bytes},
};

TEST(KernelTable, ACallGoesToTheContextsBackend) {
  ThreadTeam team(2);
  int component = 0;
  mark_row(ExecutionContext(team), &component);
  EXPECT_EQ(component, 20);
  mark_row(ExecutionContext(team, Implementation::reference), &component);
  EXPECT_EQ(component, 1);
}

TEST(KernelTable, AMissingKernelIsNamed) {
  ThreadTeam team(1);
  int component = 0;
  const ExecutionContext context(team, Implementation::reference);
  EXPECT_TRUE(mark_by_one_row.has(Backend::cpu));
  EXPECT_FALSE(mark_by_one_row.has(Backend::reference));
  EXPECT_FALSE(mark_by_one_row.has(Backend::cuda));
  tests::expect_error([&] { mark_by_one_row(context, &component); }, ExitCode::config, {"backend reference has no kernel for mark_by_one"});
  tests::expect_error([] { static_cast<void>(mark_by_one_row.on(Backend::cuda)); }, ExitCode::config, {"backend cuda", "mark_by_one"});
}

TEST(KernelTable, PlansTheScratchOfTheHungriestBackendOfADevice) {
  EXPECT_EQ(planned_scratch(scratch_row, Processor(3), 2), 200U);    // the reference's
  EXPECT_EQ(planned_scratch(scratch_row, Processor(300), 2), 600U);  // the fast_mark one's
  EXPECT_EQ(planned_scratch(scratch_row, Processor({DeviceKind::cuda, 0}, 300), 2), 7U);
}

TEST(KernelTable, ACallNeedsTheScratchOfItsOwnBackend) {
  ThreadTeam team(2);
  EXPECT_EQ(needed_scratch(scratch_row, ExecutionContext(team), 2), 4U);
  EXPECT_EQ(needed_scratch(scratch_row, ExecutionContext(team, Implementation::reference), 2), 200U);
  constinit static Kernel<Bytes> empty("empty");
  EXPECT_EQ(needed_scratch(empty, ExecutionContext(team), 2), 0U);
  EXPECT_EQ(planned_scratch(empty, Processor(2), 2), 0U);
}

}  // namespace
}  // namespace millrace::kernels::testing
