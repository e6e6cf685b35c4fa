// Under mpirun: four ranks over the processes there are, so that with two processes some channels stay in process.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/cluster/link_world.hpp"

namespace millrace::cluster {
namespace {

std::unique_ptr<Transport> transport;

TEST(Transport, KnowsItsProcessesAndBroadcasts) {
  EXPECT_EQ(transport->processes(), launch_from_environment().processes);
  EXPECT_EQ(transport->process(), launch_from_environment().process);
  EXPECT_EQ(transport->host(transport->process()), host_name());
  std::array<std::byte, 3> bytes{};
  if (transport->process() == 0) bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  transport->broadcast(bytes);
  EXPECT_EQ(bytes[2], std::byte{3});
}

TEST(Transport, TasksRunOnItsThreadAndGiveBackWhatTheyThrow) {
  EXPECT_THROW(transport->run([] { fail(ExitCode::data, "test", "thrown there"); }), Error);
}

}  // namespace

LinkWorld& link_world() {
  static LinkWorld world{Topology(4, transport->processes(), transport->process()), transport.get()};
  return world;
}

}  // namespace millrace::cluster

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  millrace::cluster::transport = std::make_unique<millrace::cluster::Transport>();
  const int result = RUN_ALL_TESTS();
  millrace::cluster::transport.reset();
  return result;
}
