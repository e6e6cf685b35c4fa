#pragma once

#include <string>

#include "configs/load.hpp"

namespace millrace::configs {

/// Every value with where it came from, as TOML that loads to the same run:
///     [train]
///     steps = 200                 # run.toml:14:1
[[nodiscard]] std::string show(const LoadedRun& run);

/// Every key for a terminal: the values that it accepts, its default, what it does.
[[nodiscard]] std::string help_text();

/// The same as a page, one table a section: docs/keys.md.
[[nodiscard]] std::string key_reference();

}  // namespace millrace::configs
