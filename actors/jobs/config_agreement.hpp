#pragma once

#include <string>

#include "actors/setup/session.hpp"

namespace millrace::actors {

/// Checks that all processes have the same configuration. `text` has a line for each key, "train.seed = 1". Collective. Errors:
/// Error(start), which names the keys that differ, with both values.
void agree_on_config(Session& session, const std::string& text);

}  // namespace millrace::actors
