#pragma once

#include <string>

#include "runtime/profile/profile.hpp"

namespace millrace::tools {

/// What a person reads of a profile: clocks, each rank's time by cause, the planned step beside the measured one, the costliest causes of
/// lateness, the operations that took most, model FLOPs utilisation.
[[nodiscard]] std::string print(const runtime::Profile& profile);

/// Writes profile.json, trace.json and report.html into `folder`, which is made where it is missing; files of these names are replaced.
/// Returns what the checks of both find, in words; empty where they are sound. Error(storage) for what cannot be written.
[[nodiscard]] std::string write_profile(const runtime::Profile& profile, const std::string& folder);

/// The same checks of a folder that is there, and a line on each file that is sound. Error(usage) where a file cannot be read.
[[nodiscard]] std::string check_profile(const std::string& folder);

}  // namespace millrace::tools
