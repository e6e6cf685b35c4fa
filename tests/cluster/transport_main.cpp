#include "tests/cluster/transport_main.hpp"

#include <gtest/gtest.h>

#include "tests/support/skipped_cases.hpp"

namespace millrace::cluster {

int run_with_transport(int argc, char** argv, std::unique_ptr<Transport>& transport) {
  testing::InitGoogleTest(&argc, argv);
  // If bells are shared, rings end the waits: if one side omits some of them, the test times out.
  ClusterConfig config;
  config.long_nap_microseconds = 30'000'000;
  transport = std::make_unique<Transport>(config);
  const int result = tests::run_all_tests();
  transport.reset();
  return result;
}

}  // namespace millrace::cluster
