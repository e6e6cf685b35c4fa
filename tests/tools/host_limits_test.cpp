#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/support/made_up_host.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

// Runs on hosts with less memory or fewer cores than they need.
namespace millrace::tests {
namespace {

Words train(const Words& more) {
  return joined({"train", "configs/runs/tiny.toml", "data.text=docs", "data.held_out=0", "evaluate.every=0", "sample.tokens=0",
                 "run.directory=", "train.steps=2", "train.warmup_steps=1", "pipeline.ranks=2", "train.threads=1"},
                more);
}

/// tiny.toml needs a few MiB per rank.
void limit_memory(const MadeUpHost& host, const std::string& bytes) {
  host.stand_in("/job/step");
  host.write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  host.write("/sys/fs/cgroup/job/memory.max", bytes + "\n");
  host.write("/sys/fs/cgroup/job/memory.current", "0\n");
}

TEST(HostLimits, ARunThatDoesNotFitIsRefusedByRankAndStage) {
  const MadeUpHost host;
  limit_memory(host, "1048576");
  const auto result = run_millrace(train({}), host.variable());
  expect_failure(result, ExitCode::memory,
                 {"2 ranks need ", "1.0 MiB are free: memory.max = 1048576 of cgroup /sys/fs/cgroup/job; nothing was allocated",
                  "rank 0: ", "rank 1: ", "stage 0: ", "stage 1: ", "workspace, batches and rings"});
  EXPECT_EQ(result.out.find("step 1/"), std::string::npos);
}

TEST(HostLimits, AnUnheardOfModelIsRefusedOnThisHost) {
  const auto result = run_millrace(train({"model.layers=100", "model.hidden_size=16384", "model.intermediate_size=65536", "model.heads=64",
                                          "model.kv_heads=8", "model.head_dim=256"}));
  expect_failure(result, ExitCode::memory, {"2 ranks need ", "GiB", "free: ", "nothing was allocated", "rank 1: "});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory does not fit into any of these limits

TEST(HostLimits, AProcessWithoutAddressesForItsThreadsSaysSo) {
  int refused = 0;
  for (const int mebibytes : {260, 300, 340, 380, 420, 460, 500}) {
    const auto result = run_millrace(train({}), fmt::format("prlimit --as={} timeout -s KILL 60", std::int64_t{mebibytes} << 20));
    if (result.code == 0) continue;
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::memory)) << mebibytes << " MiB: " << result.err;
    EXPECT_NE(result.err.find("the system refused "), std::string::npos) << mebibytes << " MiB: " << result.err;
    ++refused;
  }
  EXPECT_GE(refused, 2);
}

#endif

TEST(HostLimits, ProcessesOfAHostAddUp) {
  // Each of the two ranks fits, but not both.
  const auto alone = run_millrace({"inspect", "configs/runs/tiny.toml", "pipeline.ranks=2", "run.directory=", "train.threads=1",
                                   "evaluate.every=0", "sample.tokens=0", "data.held_out=0"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  std::vector<long> bytes;
  for (const char* rank : {"\n    0  0 ", "\n    1  1 "}) {
    const auto line = alone.out.find(rank);
    ASSERT_NE(line, std::string::npos) << alone.out;
    bytes.push_back(std::stol(alone.out.substr(alone.out.find('%', line) + 1)));
  }
  const auto both = bytes[0] + bytes[1], one = std::max(bytes[0], bytes[1]);
  const MadeUpHost host, roomy;
  limit_memory(host, std::to_string(one + (both - one) / 2));
  limit_memory(roomy, std::to_string(both));
  const auto refused = run_millrace(train({}), host.variable() + " " + on_processes(2));
  expect_failure(refused, ExitCode::memory, {"2 ranks need ", "memory.max", "rank 0: ", "rank 1: "});
  const auto fits = run_millrace(train({}), roomy.variable() + " " + on_processes(2));
  EXPECT_EQ(fits.code, 0) << fits.err;
}

TEST(HostLimits, InspectAndPlanAndDoctorName) {
  const MadeUpHost host;
  limit_memory(host, "1048576");
  host.write("/sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  const Words run{"configs/runs/tiny.toml", "pipeline.ranks=2", "train.threads=1"};
  const auto inspected = run_millrace(joined({"inspect"}, run), host.variable());
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  expect_parts(inspected.out, {"1.0 MiB free here: memory.max = 1048576", "It does not fit: train would end with code 8", "rank 1: "});
  const auto planned = run_millrace(joined(joined({"plan"}, run), {"--schedules", "1f1b"}), host.variable());
  EXPECT_EQ(planned.code, 0) << planned.err;
  expect_parts(planned.out,
               {"no limit was given; here 1.0 MiB are free, 0.5 MiB for each of 2 ranks on one host: memory.max", "--memory 524288"});
  const auto doctor = run_millrace({"doctor"}, host.variable());
  expect_parts(doctor.out, {"memory         1.0 MiB free: memory.max = 1048576 of cgroup /sys/fs/cgroup/job", "64.0 GiB free: MemAvailable",
                            "cpu quota      0.5 cores: cpu.max of cgroup /sys/fs/cgroup/job", "GFLOP/s on 1 core together"});
}

/// The losses in the output of a run.
std::string losses_of(const std::string& out) {
  std::string losses;
  for (auto at = out.find("| loss "); at != std::string::npos; at = out.find("| loss ", at + 1)) losses += out.substr(at, 14);
  return losses;
}

TEST(HostLimits, MoreThreadsThanCoresAreToldAndTakeTurns) {
  const MadeUpHost host;
  host.stand_in("/job");
  host.write("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  const auto many = run_millrace(train({"train.threads=33"}), host.variable());
  EXPECT_EQ(many.code, 0) << many.err;
  expect_parts(many.err, {"warning: 2 ranks x 33 threads are more than the 1 core of this host", "train.threads = 1 fits"});
  const auto generated = run_millrace(
      {"generate", "--model", "tests/golden/hf_llama", "--tokenizer", "byte", "--prompt", "a", "--tokens", "1", "--threads", "2"},
      host.variable());
  expect_parts(generated.err, {"gains nothing by more; --threads 1 fits"});
  const auto few = run_millrace(train({}), host.variable());
  EXPECT_EQ(few.err.find("warning"), std::string::npos) << few.err;
  expect_parts(few.out, {"| 1 thread per rank | 2 ranks take turns on 1 core | peak "});
  // The number of threads determines the bits, not how many run at a time.
  const Words three{"pipeline.ranks=1", "train.threads=3"};
  const auto folded = run_millrace(train(three), host.variable()), spread = run_millrace(train(three));
  EXPECT_EQ(losses_of(folded.out), losses_of(spread.out));
  EXPECT_NE(losses_of(folded.out), "");
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HostLimits, WhatOtherProcessesWarnOfIsPrintedOnceWithItsRank) {
  // Four processes, of which each takes itself for the only one of its host. Process 0's host is this one, the others' has one core.
  const MadeUpHost host;
  host.stand_in("/job");
  host.write("/sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  const std::string as_hosts =
      " env OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1"
      " sh -c 'test $OMPI_COMM_WORLD_RANK != 0 || unset MILLRACE_HOST_FILES; exec \"$@\"' sh";
  const Words words = train({"pipeline.ranks=4", "train.threads=5"});
  const auto result = run_millrace(words, host.variable() + " " + on_processes(4) + as_hosts);
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string warning = "1 rank x 5 threads are more than the 1 core of this host";
  EXPECT_EQ(count_of(result.err, warning), 1) << result.err;
  EXPECT_EQ(count_of(result.err, "warning: [rank "), 1) << result.err;
  const auto silent = run_millrace(joined(words, {"--log-level", "error"}), host.variable() + " " + on_processes(4) + as_hosts);
  EXPECT_EQ(silent.code, 0) << silent.err;
  EXPECT_EQ(count_of(silent.err, warning), 0) << silent.err;
}

TEST(HostLimits, AutomaticThreadsKeepToTheQuota) {
  const MadeUpHost host;
  host.stand_in_v1("/job");
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  const auto result = run_millrace(train({"train.threads=0", "pipeline.ranks=1"}), host.variable());
  EXPECT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"| 1 thread per rank | peak "});
}

TEST(HostLimits, AMachineThatOthersUseHasAPeakInDoubt) {
  std::string busy = ":; ";
  for (std::size_t i = 0; i < 2 * std::max(2U, std::thread::hardware_concurrency()); ++i) busy += "timeout 20 yes > /dev/null & ";
  const auto result = run_millrace(train({}), busy, "; pkill -x -P $$ timeout");
  expect_parts(result.out, {"\ndoubt     the peak, and with it MFU: other programs used ", "yes with "});
}

}  // namespace
}  // namespace millrace::tests
