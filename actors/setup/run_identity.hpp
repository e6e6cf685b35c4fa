#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace millrace::actors {

/// Names and values that two runs must have in common to be the same run.
using IdentityKeys = std::map<std::string, std::string>;

/// What a run is compared by: with itself in the job's other processes, and with the run that wrote the checkpoint from which it resumes.
/// The command makes it, since only configs/ knows the keys (tools/commands/run_settings.hpp).
struct RunIdentity {
  std::string text;   // every key and value: stored in the run directory, compared between processes
  std::string build;  // identifies the binary's sources and libraries
  IdentityKeys keys;  // the identity keys as the description has them: train.threads is 0 if the number is automatic
  /// Throws Error(checkpoint) with each identity key that differs. `steps`: the number of steps that the checkpoint has finished.
  std::function<void(const IdentityKeys& recorded, const IdentityKeys& current, const std::string& checkpoint, std::int64_t steps)> check;
};

}  // namespace millrace::actors
