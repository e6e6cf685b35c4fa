#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/planning/plan_search.hpp"
#include "runtime/schedule/simulator/extrapolate.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// The options of `millrace plan --replicas`, which predicts the step time of a plan with data-parallel replicas. Times are in
/// milliseconds.
struct ScaleRequest {
  std::vector<int> replicas;
  runtime::ScaleModel model;  // except the bytes of gradients, which the plan gives
  double jitter = 0;
  bool reduces = false;    // options for the gradient reduction were given
  bool error = false;      // options for the error of predictions were given
  bool optimizer = false;  // the time of the optimizer was given
};

/// The options of `millrace plan` that read_scale() reads; all of them take a value.
[[nodiscard]] std::vector<Option> scale_options();

/// The error of earlier predictions; its ranks are 0 if none were given. Nothing without --error. Throws as read_scale() does.
[[nodiscard]] std::optional<runtime::PredictionError> read_error(const Arguments& arguments);

/// Reads these options; returns nothing if none was given. Throws Error(usage) for a number out of its range, for an option without
/// --replicas (but for those of the error), and if the costs are not in milliseconds (neither --measure nor --costs).
[[nodiscard]] std::optional<ScaleRequest> read_scale(const Arguments& arguments);

/// Prints one line for every number of replicas. `request` is the input of the plan search, `plan` one of its results.
void print_scale(ScaleRequest scale, const actors::PlanRequest& request, const actors::PlannedRun& plan);

}  // namespace millrace::tools
