#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/setup/job_config.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/run_identity.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

class DataSource;
class Pipeline;
class RunListener;

/// A resolved run description and what the command adds to it (tools/commands/run_settings.hpp). Only the jobs read it (train(),
/// profile_training(), SteppedRun); each component gets the section that it needs.
struct RunSettings : JobConfig {
  RunIdentity identity;
  std::function<std::size_t()> terminal_columns;  // the width of the terminal on which stdout is watched; empty: it is none
  std::string overruled_model;                    // keys that overrule config.json of model.from, with their places, for messages

  /// What trains a finished run further, said where one is started again: part of a sentence.
  std::string continuation = "a larger train.steps continues it";

  /// Called in every process after its ranks have stopped and before they are destroyed, to examine traces, counters and plans.
  /// May be empty.
  std::function<void(Pipeline& pipeline)> examine;

  /// Called in process 0, on its main thread while the job runs, with a requested profile and the folder for it. Returns the
  /// message to print; an exception is printed as well and does not stop the run. Empty: profiles cannot be requested.
  std::function<std::string(runtime::Measured measured, const std::string& folder)> profiled;

  /// The data in place of those of [data], in every process of the job. Null: data.text or data.tokens.
  std::shared_ptr<const DataSource> data_source;

  /// Called in process 0 with every step and every evaluation of a training run. Not owned.
  std::vector<RunListener*> listeners;

  [[nodiscard]] PlanRequest plan_request() const {
    return {model, train, pipeline, rematerialize, kernels::device_kind(device), !data.packing, internal_metrics, mesh};
  }
};

}  // namespace millrace::actors
