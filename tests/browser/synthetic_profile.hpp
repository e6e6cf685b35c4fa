#pragma once

#include <string>

#include "tests/browser/synthetic_step.hpp"

namespace millrace::tests {

/// What a profile is made up for.
struct SyntheticRun {
  std::string schedule = "1f1b";
  int ranks = 4;
  int microbatches = 8;
  int processes = 2;
  int steps = 5;
  bool rehearsal = false;  // no loss, no operations, no machine
};

/// A profile of the format "millrace.profile.1" from simulated steps, one rank of them slowed down; the same for the same run, always.
[[nodiscard]] Json synthetic_profile(const SyntheticRun& run);

}  // namespace millrace::tests
