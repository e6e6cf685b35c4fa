#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/jobs/stepped_run.hpp"

namespace millrace::tools {

/// A run as its run directory describes it.
struct RecordedRun {
  actors::RunSettings settings;
  std::vector<std::string> model_warnings;  // warnings from reading its model.from
};

/// The settings stored in a run directory, overridden by keys of the command line, which must not change the numbers; `arguments` are the
/// directory and key=value. Errors, with the component `component`: Error(usage) for a folder that is not a run directory,
/// Error(checkpoint) with the place of each key that would change the numbers.
[[nodiscard]] RecordedRun recorded_run(const std::vector<std::string>& arguments, const char* component);

/// Opens the run at its newest usable checkpoint before `step` (counted from 1), or at its beginning if there is none.
[[nodiscard]] std::unique_ptr<actors::SteppedRun> run_before(const actors::RunSettings& settings, const std::string& directory,
                                                             std::int64_t step);

}  // namespace millrace::tools
