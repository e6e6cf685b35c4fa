#pragma once

#include <string>

#include "actors/setup/run_settings.hpp"
#include "configs/run_config.hpp"

namespace millrace::tools {

/// What actors::train runs by: the description, its text and the check of identity keys. `build` names what was built from what.
[[nodiscard]] actors::RunSettings settings_of(const configs::RunConfig& config, const std::string& build);

}  // namespace millrace::tools
