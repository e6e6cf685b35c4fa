#pragma once

#include <string>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// Attributes the time of a step to causes. Each part is the difference of two simulations, with and without the cause; the
/// causes are added in this order, so `work` and all parts add up to the makespan. A part can be negative: a slower link may
/// change what hides behind what.
struct LostTime {
  double work = 0;       // the mean of the ranks' action times, without noise
  double bubble = 0;     // inherent in the schedule: equal stages, free links
  double imbalance = 0;  // unequal stages
  double exchange = 0;   // of rows between ranks that share experts, where nothing hides it
  double weights = 0;    // of parameters that replicas gather, where nothing hides it
  double latency = 0;    // of the links
  double bandwidth = 0;  // of the links
  double slots = 0;      // rings with too few slots
  double launch = 0;     // of the host
  double slow_ranks = 0;
  double jitter = 0;
  double stalls = 0;
  [[nodiscard]] double makespan() const;
};

/// Runs twelve simulations without trace. The schedule must be well formed, and live with the rings of `costs`.
[[nodiscard]] LostTime lost_time(const Schedule& schedule, const Costs& costs);

/// One line per cause that costs or gains time, the largest first; `unit` names the unit of the costs.
[[nodiscard]] std::string to_string(const LostTime& lost, const std::string& unit);

}  // namespace millrace::runtime
