#pragma once

#include <string>

#include "configs/load.hpp"

namespace millrace::configs {

/// Every value with its origin, as TOML that loads to the same run:
///     [train]
///     steps = 200                 # run.toml:14:1
[[nodiscard]] std::string show(const LoadedRun& run);

/// Describes every key for a terminal: accepted values, default, explanation.
[[nodiscard]] std::string help_text();

/// The same as a Markdown page with one table per section: docs/keys.md.
[[nodiscard]] std::string key_reference();

}  // namespace millrace::configs
