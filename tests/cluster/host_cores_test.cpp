#include "cluster/host/host_cores.hpp"

#include <gtest/gtest.h>

#include "tests/support/made_up_host.hpp"

namespace millrace::cluster {
namespace {

using tests::MadeUpHost;

TEST(HostCores, TheLeastQuotaOnTheWayUpCounts) {
  const MadeUpHost host;
  host.stand_in("/job/step");
  const HostFiles files(host.root());
  EXPECT_FALSE(core_quota(files));
  host.write("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_FALSE(core_quota(files));
  EXPECT_EQ(usable_cores(8, files), 8);
  host.write("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  host.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  ASSERT_TRUE(core_quota(files));
  EXPECT_DOUBLE_EQ(core_quota(files)->cores, 2.5);
  EXPECT_EQ(core_quota(files)->source, "cpu.max of cgroup /sys/fs/cgroup/job");
  EXPECT_EQ(usable_cores(8, files), 2);
  EXPECT_EQ(usable_cores(1, files), 1);
  host.write("/sys/fs/cgroup/job/step/cpu.max", "50000 100000\n");  // half a core is still one thread
  EXPECT_EQ(usable_cores(8, files), 1);
}

TEST(HostCores, ReadsVersionOne) {
  const MadeUpHost host;
  host.stand_in_v1("/job");
  const HostFiles files(host.root());
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(8, files), 8);
  host.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(usable_cores(8, files), 3);
}

TEST(HostTeams, TakeTheirShareOfTheCores) {
  const auto at_once = [](int cores, int ranks, int threads) { return HostTeams{cores, ranks, threads}.threads_at_once(); };
  EXPECT_EQ(at_once(8, 2, 4), 4);
  EXPECT_EQ(at_once(8, 2, 2), 2);
  EXPECT_EQ(at_once(2, 2, 64), 1);
  EXPECT_EQ(at_once(8, 3, 4), 2);
  EXPECT_EQ(at_once(2, 4, 1), 1);
  EXPECT_EQ((HostTeams{8, 3, 4}.computing()), 6);
  EXPECT_EQ((HostTeams{2, 4, 1}.computing()), 2);
}

TEST(HostTeams, SayWhatIsTooMany) {
  EXPECT_EQ((HostTeams{8, 2, 4}.crowded()), "");
  const auto text = HostTeams{2, 2, 64}.crowded();
  for (const char* part : {"2 ranks x 64 threads", "the 2 cores", "train.threads = 1 fits"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_NE((HostTeams{2, 2, 64}.crowded("--threads").find("; --threads 1 fits")), std::string::npos);
  EXPECT_NE((HostTeams{2, 4, 1}.crowded().find("4 ranks x 1 thread are more than the 2 cores")), std::string::npos);
}

TEST(HostTeams, CountTheRanksOfAllProcessesOfTheHost) {
  const Launch two_here{.processes = 4, .process = 1, .local_processes = 2, .local_process = 1};
  EXPECT_EQ(host_teams(Topology(8, 4, 1), two_here, 16, 4).ranks, 4);
  // A process that is bound to cores of its own divides only these among its ranks.
  setenv("OMPI_MCA_hwloc_base_binding_policy", "core", 1);
  EXPECT_EQ(host_teams(Topology(8, 4, 1), two_here, 16, 4).ranks, 2);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  EXPECT_EQ(host_teams(Topology(8, 4, 1), two_here, 16, 4).ranks, 4);
  unsetenv("OMPI_MCA_hwloc_base_binding_policy");
}

}  // namespace
}  // namespace millrace::cluster
