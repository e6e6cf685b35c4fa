#pragma once

#include <string>

#include "runtime/profile/profile.hpp"

namespace millrace::tools {

/// The profile as text for a user: clocks, each rank's time by cause, the planned and the measured step, the costliest causes of
/// lateness, the longest operations, model FLOPs utilisation.
[[nodiscard]] std::string print(const runtime::Profile& profile);

/// Writes profile.json, trace.json and report.html into `folder`, which is created if it is missing; existing files are replaced.
/// Returns the problems that the checks of the two JSON files find, as text; empty if there are none. Throws Error(storage) if a
/// file cannot be written.
[[nodiscard]] std::string write_profile(const runtime::Profile& profile, const std::string& folder);

/// Runs the same checks on an existing folder, and prints a line for each file without problems. Throws Error(usage) if a file
/// cannot be read.
[[nodiscard]] std::string check_profile(const std::string& folder);

}  // namespace millrace::tools
