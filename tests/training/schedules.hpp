#pragma once

#include <string>
#include <vector>

#include "tests/training/layouts.hpp"

namespace millrace::tests {

/// A schedule as a run gets it: its name and chunks, or a user's table.
struct ScheduleCase {
  std::string name;  // as part of a test's name
  std::vector<std::string> words;
  int parts = 1;  // train.accumulators of the one rank that it equals: 2 where two replicas share the microbatches
};

/// Every schedule by name, with its usual chunks, for four ranks and eight microbatches; and tables from files: two that were printed and
/// changed by nobody, and one written by hand, 1F1B whose last backwards are split while those before them are whole.
[[nodiscard]] const std::vector<ScheduleCase>& schedule_cases();

/// A run of six steps of eight layers with this schedule in so many processes, and what it is compared with.
[[nodiscard]] LayoutCase schedule_run(const ScheduleCase& schedule, const std::string& dtype, bool tied, int processes);

}  // namespace millrace::tests
