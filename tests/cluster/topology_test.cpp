#include "cluster/topology.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

TEST(Topology, RanksOfAProcessAreContiguous) {
  const Topology topology(6, 3, 1);
  EXPECT_EQ(topology.ranks_per_process(), 2);
  EXPECT_EQ(topology.first_rank(), 2);
  EXPECT_TRUE(topology.hosts(3));
  EXPECT_FALSE(topology.hosts(4));
  EXPECT_EQ(topology.process_of(5), 2);
  EXPECT_EQ(ranks_text(topology, 2), "ranks 4-5");
  EXPECT_EQ(ranks_text(Topology(3, 3, 0), 2), "rank 2");
}

TEST(Topology, NamesTheLegalNumbersOfProcesses) {
  try {
    Topology(6, 4, 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("one of 1, 2, 3, 6"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Topology(0, 1, 0), Error);
}

TEST(Topology, WithoutMpirunThereIsOneProcess) {
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(launch_from_environment().processes, 1);
  EXPECT_FALSE(launch_from_environment().under_mpirun);
}

TEST(Topology, ReadsWhatMpirunSays) {
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  const Launch launch = launch_from_environment();
  EXPECT_TRUE(launch.under_mpirun);
  EXPECT_EQ(launch.processes, 4);
  EXPECT_EQ(launch.process, 3);
  EXPECT_EQ(launch.local_processes, 2);
  EXPECT_EQ(launch.local_process, 1);
  setenv("OMPI_COMM_WORLD_RANK", "4", 1);
  EXPECT_THROW(launch_from_environment(), Error);
  setenv("OMPI_COMM_WORLD_RANK", "x", 1);
  EXPECT_THROW(launch_from_environment(), Error);
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"})
    unsetenv(name);
}

TEST(Affinity, ThreadsAreTheHostsCoresDividedByItsRanks) {
  const Launch two_here{.processes = 4, .process = 1, .local_processes = 2, .local_process = 1};
  EXPECT_EQ(automatic_threads(Topology(8, 4, 1), two_here, 16), 4);
  EXPECT_EQ(automatic_threads(Topology(8, 4, 1), two_here, 2), 1);
}

TEST(Affinity, WorkersShareNoCore) {
  const Launch two_here{.processes = 2, .process = 1, .local_processes = 2, .local_process = 1};
  const std::vector<int> cores{0, 1, 2, 3, 8, 9, 10, 11};
  const auto teams = worker_cores(Topology(4, 2, 1), two_here, cores, 2);
  EXPECT_EQ(teams, (std::vector<std::vector<int>>{{8, 9}, {10, 11}}));
  for (const auto& team : worker_cores(Topology(4, 2, 1), two_here, cores, 3)) EXPECT_TRUE(team.empty());
}

TEST(Affinity, WidensToAllCores) {
  const std::vector<int> cores = widen_affinity();
  EXPECT_FALSE(cores.empty());
  EXPECT_EQ(cores, available_cores());
}

}  // namespace
}  // namespace millrace::cluster
