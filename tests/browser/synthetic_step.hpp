#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::tests {

using Json = nlohmann::ordered_json;

/// The causes of a profile, in the order of its numbers.
[[nodiscard]] const std::vector<std::string>& causes();

/// One step as if it had been measured: a simulated schedule with noise, between the start of the step and the optimizer.
/// Milliseconds from `begin`'s zero.
struct SyntheticStep {
  double begin = 0, duration = 0;
  Json measured, waits, sends;  // as in "timeline" of a profile
  Json attribution, wall;       // as in "steps"
};

/// `plan` is the simulation without noise, whose idle time counts as bubble. With `snapshot` every rank copies its parameters at
/// the end.
[[nodiscard]] SyntheticStep synthetic_step(const runtime::Schedule& schedule, const runtime::Costs& costs, const runtime::Simulation& plan,
                                           double begin, bool snapshot);

/// The lists of a simulation as "timeline"."planned".
[[nodiscard]] Json planned_lists(const runtime::Schedule& schedule, const runtime::Simulation& plan, double begin);

/// A number for JSON: milliseconds with a resolution of a tenth of a microsecond, which halves the text.
[[nodiscard]] double rounded(double ms);

}  // namespace millrace::tests
