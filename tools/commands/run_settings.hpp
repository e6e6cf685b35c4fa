#pragma once

#include <string>

#include "actors/setup/run_settings.hpp"
#include "configs/load.hpp"

namespace millrace::tools {

/// Makes the settings of actors::train: the run description, its text and the identity keys. `build` identifies the binary.
[[nodiscard]] actors::RunSettings settings_of(const configs::LoadedRun& run, const std::string& build);

/// Sets the faults of debug.fault for this process, if there are any. Error(config) for a rule that there is not, with the key's place.
void inject_faults(const configs::LoadedRun& run, int process);

}  // namespace millrace::tools
