#pragma once

#include <map>
#include <string>
#include <vector>

#include "configs/run_config.hpp"

namespace millrace::configs {

/// The keys that identify a run: every key marked identity, with its value as TOML; train.schedule_steps resolved. Checkpoints store it,
/// together with the data's fingerprint.
[[nodiscard]] std::map<std::string, std::string> identity(const RunConfig& config);

/// Every key and its value as TOML, one "key = value" per line. It must be the same in all processes of a job.
[[nodiscard]] std::string canonical_text(const RunConfig& config);

struct IdentityChange {
  std::string key;
  std::string recorded;  // empty: the checkpoint does not have the key
  std::string current;
};

/// The differences between a checkpoint's identity and this run's, in order of their names. A key that was introduced after the
/// checkpoint was written counts as having its default there; train.threads, which older checkpoints have, does not count.
[[nodiscard]] std::vector<IdentityChange> identity_changes(const std::map<std::string, std::string>& recorded,
                                                           const std::map<std::string, std::string>& current);

/// The key whose change is refused only if steps that were made would have had other learning rates, which the caller decides.
inline constexpr const char* schedule_key = "train.schedule_steps";

/// Throws Error(checkpoint), naming each changed key except schedule_key with both values, unless the two are equal. `checkpoint` is its
/// name in the message.
void check_identity(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                    const std::string& checkpoint);

}  // namespace millrace::configs
