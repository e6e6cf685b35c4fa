#pragma once

#include <map>
#include <string>
#include <vector>

#include "configs/run_config.hpp"

namespace millrace::configs {

/// What makes a run this run: every key marked identity, and its value as TOML. A checkpoint keeps it; the data's fingerprint goes beside
/// it. Resolve train.threads before.
[[nodiscard]] std::map<std::string, std::string> identity(const RunConfig& config);

/// Every key and its value as TOML, one "key = value" a line: what all processes of a job must agree on.
[[nodiscard]] std::string canonical_text(const RunConfig& config);

struct IdentityChange {
  std::string key;
  std::string recorded;  // empty: not there
  std::string current;
};

/// The differences between a checkpoint's identity and this run's, in order of their names. train.threads = 0 differs from
/// nothing: automatic threads are taken from the checkpoint. A key that the checkpoint does not have, since it is younger, had its default.
[[nodiscard]] std::vector<IdentityChange> identity_changes(const std::map<std::string, std::string>& recorded,
                                                           const std::map<std::string, std::string>& current);

/// Refuses to resume. Errors: Error(checkpoint) naming each changed key with both values; `checkpoint` is named as the other side.
void check_identity(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                    const std::string& checkpoint);

}  // namespace millrace::configs
