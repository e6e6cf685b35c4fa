#pragma once

#include <string>

#include "actors/setup/run_settings.hpp"
#include "configs/load.hpp"

namespace millrace::tools {

/// Makes the settings of actors::train: the run description, its text and the identity keys. `build` identifies the binary.
[[nodiscard]] actors::RunSettings settings_of(const configs::LoadedRun& run, const std::string& build);

}  // namespace millrace::tools
