#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "actors/setup/run_identity.hpp"
#include "configs/load.hpp"

/// How a run is trained further whose learning rate is a rule for a number of steps, and when it may not be.
namespace millrace::tools {

/// What trains a run further when it has made its steps, for RunSettings::continuation: a larger train.steps alone, or with the keys that
/// keep the learning rate of the steps that were made, or a new run where the rate has ended at 0.
[[nodiscard]] std::string continuation_of(const configs::LoadedRun& run);

/// The keys of a description's learning rate whose values may differ from those that the user wrote.
struct RateKeys {
  std::set<std::string> from_files;  // train.warmup_steps and train.decay_steps, where a file gives them: too few steps shorten them
  std::set<std::string> shortened;   // of these, those that were
};
[[nodiscard]] RateKeys rate_keys(const configs::LoadedRun& run);

/// Throws Error(checkpoint), naming each key that differs between a checkpoint after `steps` steps and this run. Where only the lengths of
/// the learning rate differ, it names the first step that would have another rate, and the keys to add to the command that keep it; a
/// number of steps that leaves all of these rates as they are is accepted.
void check_identity(const actors::IdentityKeys& recorded, const actors::IdentityKeys& current, const std::string& checkpoint,
                    std::int64_t steps, const RateKeys& keys);

}  // namespace millrace::tools
