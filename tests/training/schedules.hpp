#pragma once

#include <string>
#include <vector>

#include "tests/training/layouts.hpp"

namespace millrace::tests {

/// A schedule of a run: its name and chunks, or a user's table.
struct ScheduleCase {
  std::string name;  // as part of a test's name
  std::vector<std::string> words;
  int parts = 1;  // train.accumulators of the single rank that it must equal: 2 if two replicas share the microbatches
};

/// Every schedule by name, with its default chunks, for four ranks and eight microbatches; and tables from files: two that were
/// printed and are unchanged, and one written by hand, 1F1B whose last backwards are split while the earlier ones are whole.
[[nodiscard]] const std::vector<ScheduleCase>& schedule_cases();

/// A run of six steps with eight layers and this schedule in `processes` processes, with the run that it is compared with.
[[nodiscard]] LayoutCase schedule_run(const ScheduleCase& schedule, const std::string& dtype, bool tied, int processes);

}  // namespace millrace::tests
