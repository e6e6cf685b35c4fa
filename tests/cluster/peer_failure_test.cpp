#include "cluster/control/peer_failure.hpp"

#include <gtest/gtest.h>

namespace millrace::cluster {
namespace {

/// The processes among `survivors` that print the error, on hosts of two processes each.
std::vector<int> speakers(std::vector<bool> is_lost, const std::vector<int>& survivors) {
  std::vector<int> result;
  for (const int process : survivors) {
    const Launch launch{static_cast<int>(is_lost.size()), process, 2, process % 2, true};
    if (reports_peer_failures(launch, process, is_lost)) result.push_back(process);
  }
  return result;
}

TEST(PeerFailure, IsToldByProcessZero) { EXPECT_EQ(speakers({false, false, true, false}, {0, 1, 3}), std::vector<int>{0}); }

TEST(PeerFailure, WithoutProcessZeroIsToldOnEveryHost) {
  EXPECT_EQ(speakers({true, false, false, false}, {1, 2, 3}), (std::vector<int>{1, 2}));
  // its whole host has failed, which the processes cannot know
  EXPECT_EQ(speakers({true, false, false, false}, {2, 3}), std::vector<int>{2});
}

TEST(PeerFailure, OnOneHostIsToldByTheLowestSurvivor) {
  EXPECT_EQ(speakers({true, false}, {1}), std::vector<int>{1});
  for (const int process : {2, 3}) {
    const Launch four{4, process, 4, process, true};
    EXPECT_EQ(reports_peer_failures(four, process, {true, true, false, false}), process == 2);
  }
}

}  // namespace
}  // namespace millrace::cluster
