#pragma once

#include <string>

#include "actors/setup/run_settings.hpp"
#include "configs/run_config.hpp"

namespace millrace::tools {

/// Makes the settings of actors::train: the run description, its text and the identity keys. `build` identifies the binary.
[[nodiscard]] actors::RunSettings settings_of(const configs::RunConfig& config, const std::string& build);

}  // namespace millrace::tools
