#pragma once

#include "configs/load.hpp"

namespace millrace::configs {

/// Checks the relations between keys whose values are in range one by one. Adds warnings for values that have no effect. With
/// `complete`, the model's sizes and the data must be given; if the run `saves`, a folder for its checkpoints. Errors: Error(config),
/// which names the value that is easiest to change and its place.
void check_key_rules(LoadedRun& run, bool complete, bool saves);

}  // namespace millrace::configs
