#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "actors/setup/job_config.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

class Pipeline;

/// A resolved run description and what the command adds to it (tools/commands/run_settings.hpp).
struct RunSettings : JobConfig {
  std::string text;   // every key and value: stored in the run directory, compared between processes
  std::string build;  // identifies the binary's sources and libraries
  bool terminal = false;
  /// The identity keys and their values, once the number of threads is known.
  std::function<std::map<std::string, std::string>(std::int64_t threads)> identity;
  /// Throws Error(checkpoint) with each identity key that differs.
  std::function<void(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                     const std::string& checkpoint)>
      check_identity;

  /// Called in every process after its ranks have stopped and before they are destroyed, to examine traces, counters and plans.
  /// May be empty.
  std::function<void(Pipeline& pipeline)> examine;

  /// Called in process 0, on its main thread while the job runs, with a requested profile and the folder for it. Returns the
  /// message to print; an exception is printed as well and does not stop the run. Empty: profiles cannot be requested.
  std::function<std::string(runtime::Measured measured, const std::string& folder)> profiled;

  [[nodiscard]] PlanRequest plan_request() const {
    return {model, train, pipeline, rematerialize, kernels::device_kind(device), !data.packing};
  }
};

}  // namespace millrace::actors
