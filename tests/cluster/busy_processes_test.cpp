#include "cluster/host/busy_processes.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/made_up_host.hpp"

namespace millrace::cluster {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using tests::MadeUpHost;

/// A process that has used this many seconds so far, half of them in the kernel.
void run(const MadeUpHost& host, int id, const std::string& name, double used) {
  const auto ticks = static_cast<long>(used * static_cast<double>(sysconf(_SC_CLK_TCK)) / 2);
  host.write("/proc/" + std::to_string(id) + "/stat", std::to_string(id) + " (" + name + ") S 1 7 7 0 -1 4194560 1 2 3 4 " +
                                                          std::to_string(ticks) + " " + std::to_string(ticks) + " 9 9 20 0 1 0 5\n");
}

TEST(BusyProcesses, AreNamedByWhatTheyUsedMeanwhile) {
  const MadeUpHost host;
  run(host, 10, "cc1plus", 100);
  run(host, 11, "a (b) c", 5);
  run(host, 12, "idle", 1000);
  run(host, 99, "millrace", 50);
  const auto begin = steady_clock::now();
  const HostFiles files(host.root());
  const auto before = ProcessorTimes::now(files, 99, begin);
  run(host, 10, "cc1plus", 109);
  run(host, 11, "a (b) c", 9);
  run(host, 13, "cc1plus", 6);  // it began meanwhile
  run(host, 12, "idle", 1000.2);
  run(host, 99, "millrace", 80);
  const auto commands = ProcessorTimes::now(files, 99, begin + seconds(10)).since(before);
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[0].name, "cc1plus");
  EXPECT_EQ(commands[0].processes, 2);
  EXPECT_NEAR(commands[0].cores, 1.5, 0.01);
  EXPECT_EQ(commands[1].name, "a (b) c");
  EXPECT_EQ(busy_text(commands), "busiest besides: cc1plus with 150 % of a core in 2 processes, a (b) c with 40 % of a core");
}

TEST(BusyProcesses, TakeCoresAwayFromWhatIsMeasured) {
  // Two loops beside two threads on two cores: each gets half of a core, and only the sum shows it.
  const std::vector<BusyCommand> loops{{"bash", 2, 1.0}};
  EXPECT_DOUBLE_EQ(missing_cores(loops, 2, 2), 1);
  EXPECT_EQ(crowded_text(loops, 2, 2),
            "other programs used 1.0 of the 2 cores meanwhile; busiest besides: bash with 100 % of a core in 2 processes");
  EXPECT_EQ(crowded_text(loops, 2, 8), "") << "there are cores enough";
  EXPECT_EQ(crowded_text({{"bash", 1, 0.25}}, 2, 2), "") << "a little is no reason for doubt";
  EXPECT_NE(crowded_text({{"bash", 1, 0.43}}, 2, 2), "") << "a group of processes gets no more beside another";
  // Processes of the same job are not others.
  EXPECT_EQ(crowded_text({{"millrace", 3, 1.5}, {"bash", 1, 0.2}}, 2, 2, "millrace"), "");
  EXPECT_EQ(crowded_text({{"millrace", 3, 1.5}, {"bash", 1, 0.9}}, 2, 2, "millrace"),
            "other programs used 0.9 of the 2 cores meanwhile; busiest besides: bash with 90 % of a core");
  // More threads than cores take turns by themselves.
  EXPECT_EQ(crowded_text({}, 4, 2), "");
}

TEST(BusyProcesses, AProcessWithAUsedNumberIsANewOne) {
  const MadeUpHost host;
  run(host, 10, "old", 1);
  const auto begin = steady_clock::now();
  const auto before = ProcessorTimes::now(HostFiles(host.root()), 1, begin);
  run(host, 10, "new", 3);
  const auto commands = ProcessorTimes::now(HostFiles(host.root()), 1, begin + seconds(10)).since(before);
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].name, "new");
  EXPECT_NEAR(commands[0].cores, 0.3, 0.01);
}

TEST(BusyProcesses, AWorkerOfTheKernelWithOtherWorkIsTheSame) {
  const MadeUpHost host;
  run(host, 10, "kworker/u8:1-events", 100);
  const auto begin = steady_clock::now();
  const auto before = ProcessorTimes::now(HostFiles(host.root()), 1, begin);
  run(host, 10, "kworker/u8:1+ext4-rsv-conversion", 101);
  const auto commands = ProcessorTimes::now(HostFiles(host.root()), 1, begin + seconds(10)).since(before);
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].name, "kworker/u8:1");
  EXPECT_NEAR(commands[0].cores, 0.1, 0.01);
}

TEST(BusyProcesses, NoneIsVisibleInAContainer) {
  const MadeUpHost host;
  const auto at = steady_clock::now();
  const auto times = ProcessorTimes::now(HostFiles(host.root()), 1, at);
  EXPECT_TRUE(ProcessorTimes::now(HostFiles(host.root()), 1, at + seconds(1)).since(times).empty());
  EXPECT_NE(busy_text({}).find("no other process that is visible here was busy"), std::string::npos);
}

}  // namespace
}  // namespace millrace::cluster
