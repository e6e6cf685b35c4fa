#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/jobs/stepped_run.hpp"

namespace millrace::tools {

/// A run as its directory keeps it.
struct RecordedRun {
  actors::RunSettings settings;
  std::vector<std::string> model_warnings;  // what the reader of its model.from found
};

/// The settings that a run directory keeps, with keys of the command line over them; `words` are the directory and key=value. Errors:
/// Error(usage) for a folder that is none, in the name of `who`.
[[nodiscard]] RecordedRun recorded_run(const std::vector<std::string>& words, const char* who);

/// The run from its newest usable checkpoint before `step` (counted from 1), else from its beginning.
[[nodiscard]] std::unique_ptr<actors::SteppedRun> run_before(const actors::RunSettings& settings, const std::string& directory,
                                                             std::int64_t step);

}  // namespace millrace::tools
