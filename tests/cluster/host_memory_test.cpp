#include "cluster/host/host_memory.hpp"

#include <gtest/gtest.h>

#include "tests/support/made_up_host.hpp"

namespace millrace::cluster {
namespace {

using tests::MadeUpHost;
constexpr std::uint64_t kMiB = 1U << 20U;

std::vector<MemoryBound> bounds_of(const MadeUpHost& host) { return memory_bounds(HostFiles(host.root())); }

void expect_tightest(const MadeUpHost& host, std::uint64_t free, MemoryScope scope, const std::string& source) {
  const auto bounds = bounds_of(host);
  ASSERT_FALSE(bounds.empty());
  EXPECT_EQ(bounds.front().free, free) << bounds.front().source;
  EXPECT_EQ(bounds.front().scope, scope);
  EXPECT_NE(bounds.front().source.find(source), std::string::npos) << bounds.front().source;
}

TEST(HostMemory, IsWhatTheKernelCallsAvailable) {
  const MadeUpHost host("2048");
  EXPECT_EQ(bounds_of(host).size(), 1U);
  expect_tightest(host, 2 * kMiB, MemoryScope::host, "MemAvailable");
}

TEST(HostMemory, TakesTheTightestGroupOnTheWayUp) {
  const MadeUpHost host;
  host.stand_in("/job/step/task");
  host.write("/sys/fs/cgroup/job/step/task/memory.max", "max\n");
  host.write("/sys/fs/cgroup/job/step/memory.max", "536870912\n");
  host.write("/sys/fs/cgroup/job/step/memory.current", "104857600\n");
  host.write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  host.write("/sys/fs/cgroup/job/memory.current", "943718400\n");  // other processes of the job use most of it
  expect_tightest(host, 124 * kMiB, MemoryScope::group, "memory.max = 1073741824 of cgroup /sys/fs/cgroup/job");
  EXPECT_EQ(bounds_of(host).size(), 3U);
}

TEST(HostMemory, CountsPageCacheAsFree) {
  const MadeUpHost host;
  host.stand_in("/job");
  host.write("/sys/fs/cgroup/job/memory.max", "104857600\n");
  host.write("/sys/fs/cgroup/job/memory.current", "94371840\n");
  // Shared memory counts as `file` and cannot be reclaimed.
  host.write("/sys/fs/cgroup/job/memory.stat",
             "anon 10\nfile 99999999\nshmem 5\ninactive_file 20971520\nactive_file 10485760\nslab_reclaimable 1048576\n");
  expect_tightest(host, 41 * kMiB, MemoryScope::group, "memory.max");
}

TEST(HostMemory, AGroupThatIsSlowedDownIsFull) {
  const MadeUpHost host;
  host.stand_in("/job");
  host.write("/sys/fs/cgroup/job/memory.max", "104857600\n");
  host.write("/sys/fs/cgroup/job/memory.high", "52428800\n");
  host.write("/sys/fs/cgroup/job/memory.current", "62914560\n");
  expect_tightest(host, 0, MemoryScope::group, "memory.high");
}

TEST(HostMemory, ReadsVersionOne) {
  const MadeUpHost host;
  host.stand_in_v1("/slurm/job");
  host.write("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  host.write("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "209715200\n");
  host.write("/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "62914560\n");
  host.write("/sys/fs/cgroup/memory/slurm/memory.stat", "active_file 1\ntotal_active_file 10485760\ntotal_inactive_file 20971520\n");
  expect_tightest(host, 170 * kMiB, MemoryScope::group, "memory.limit_in_bytes = 209715200 of cgroup /sys/fs/cgroup/memory/slurm");
  EXPECT_EQ(bounds_of(host).size(), 2U);
  host.write("/sys/fs/cgroup/memory/slurm/job/memory.use_hierarchy", "0\n");  // the group above does not count this one
  EXPECT_EQ(bounds_of(host).size(), 1U);
}

TEST(HostMemory, FindsItsGroupInAContainer) {
  const MadeUpHost whole, hidden;
  // The container's mount starts at its own group …
  whole.stand_in_v1("/docker/0af3", "/docker/0af3");
  whole.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
  expect_tightest(whole, kMiB, MemoryScope::group, "of cgroup /sys/fs/cgroup/memory");
  // … or the group is outside of the namespace.
  hidden.stand_in("/../other");
  hidden.write("/sys/fs/cgroup/memory.max", "2097152\n");
  expect_tightest(hidden, 2 * kMiB, MemoryScope::group, "of cgroup /sys/fs/cgroup");
}

TEST(HostMemory, KnowsTheLimitsOfTheProcess) {
  const MadeUpHost host;
  host.write("/proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max data size             unlimited            unlimited            bytes     \n"
             "Max address space         104857600            unlimited            bytes     \n");
  host.write("/proc/self/status", "Name:\tmillrace\nVmSize:\t   20480 kB\nVmData:\t 1024 kB\n");
  expect_tightest(host, 80 * kMiB, MemoryScope::process, "RLIMIT_AS = 104857600");
  EXPECT_EQ(bounds_of(host).size(), 2U);
}

TEST(HostMemory, WhatCannotBeReadBoundsNothing) {
  const tests::TemporaryFolder nothing;
  EXPECT_TRUE(memory_bounds(HostFiles(nothing.path().string())).empty());
  const MadeUpHost host;
  host.stand_in("/job");
  for (const char* text : {"", "max\n", "12x\n", "-1\n"}) {
    host.write("/sys/fs/cgroup/job/memory.max", text);
    EXPECT_EQ(bounds_of(host).size(), 1U) << text;
  }
  std::filesystem::remove(host.root() + "/sys/fs/cgroup/job/memory.max");
  std::filesystem::create_directory(host.root() + "/sys/fs/cgroup/job/memory.max");  // can be opened but not read
  EXPECT_EQ(bounds_of(host).size(), 1U);
}

TEST(HostMemory, TellsMachinesAndGroupsApart) {
  const MadeUpHost one, other;
  one.stand_in("/job/task");
  std::filesystem::create_directories(one.root() + "/sys/fs/cgroup/job/task");
  other.write("/proc/sys/kernel/random/boot_id", "another\n");
  const auto first = memory_domain(HostFiles(one.root())), again = memory_domain(HostFiles(one.root()));
  EXPECT_EQ(first.host, again.host);
  EXPECT_EQ(first.group, again.group);
  EXPECT_NE(first.host, memory_domain(HostFiles(other.root())).host);
  std::filesystem::create_directories(one.root() + "/sys/fs/cgroup/job/beside");
  one.stand_in("/job/beside");
  EXPECT_NE(first.group, memory_domain(HostFiles(one.root())).group);
}

TEST(HostMemory, IsReadOnThisHostToo) {
  const auto bounds = memory_bounds(HostFiles(""));
  ASSERT_FALSE(bounds.empty());
  EXPECT_GT(bounds.back().free, 0U);
}

}  // namespace
}  // namespace millrace::cluster
