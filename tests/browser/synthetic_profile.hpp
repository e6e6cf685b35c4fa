#pragma once

#include <string>

#include "tests/browser/synthetic_step.hpp"

namespace millrace::tests {

/// The parameters of a synthetic profile.
struct SyntheticRun {
  std::string schedule = "1f1b";
  int ranks = 4;
  int microbatches = 8;
  int processes = 2;
  int steps = 5;
  bool rehearsal = false;  // without loss, operations and machine
  bool experts = false;    // ranks exchange rows of experts in four layers
};

/// A profile in the format "millrace.profile.1" from simulated steps, with one slow rank; always the same for the same run.
[[nodiscard]] Json synthetic_profile(const SyntheticRun& run);

}  // namespace millrace::tests
