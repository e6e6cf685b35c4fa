#pragma once

#include "configs/load.hpp"

namespace millrace::configs {

/// The rules between keys, each value alone being in range. Adds warnings for values that have no effect. With `complete` the model's
/// sizes and the data must be given.
/// Errors: Error(config) with the place of the value that is easiest to change.
void check_key_rules(LoadedRun& run, bool complete);

}  // namespace millrace::configs
