#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/planning/plan_search.hpp"
#include "runtime/schedule/simulator/extrapolate.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// The options of a prediction for a plan on more ranks: data-parallel replicas of it, with times in milliseconds.
struct ScaleRequest {
  std::vector<int> replicas;
  runtime::ScaleModel model;  // without the bytes of gradients, which are the plan's
  double jitter = 0;
  bool reduces = false;  // the reduction is priced
  bool error = false;    // how far predictions are off is known
};

/// Options of `millrace plan` that belong here; all of them take a value.
[[nodiscard]] std::vector<Option> scale_options();

/// Reads them; nothing where none is given. Error(usage) for a number out of its range, for one of them without --replicas, and without
/// costs in milliseconds (--measure or --costs).
[[nodiscard]] std::optional<ScaleRequest> read_scale(const Arguments& arguments);

/// Prints a line for every number of replicas of this plan: `request` is the request of the search, `plan` one of its results.
void print_scale(ScaleRequest scale, const actors::PlanRequest& request, const actors::PlannedRun& plan);

}  // namespace millrace::tools
