#pragma once

#include <string>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// Where the time of a step goes, by what would have to be taken away to get it back. Each part is the difference of two simulations, one
/// with and one without the cause, added in this order; `work` and all parts add up to the makespan. A part can be negative: a slower
/// link may change what hides behind what.
struct LostTime {
  double work = 0;       // the mean of the ranks' action times, without noise
  double bubble = 0;     // the schedule itself: all stages alike, links free
  double imbalance = 0;  // stages that are not alike
  double latency = 0;    // of the links
  double bandwidth = 0;  // of the links
  double slots = 0;      // rings that are too short
  double launch = 0;     // of the host
  double slow_ranks = 0;
  double jitter = 0;
  double stalls = 0;
  [[nodiscard]] double makespan() const;
};

/// Ten simulations without trace. The schedule must be well formed and live with the rings of `costs`.
[[nodiscard]] LostTime lost_time(const Schedule& schedule, const Costs& costs);

/// One line a cause that cost or gained anything, the largest first; `unit` names the unit of the costs.
[[nodiscard]] std::string to_string(const LostTime& lost, const std::string& unit);

}  // namespace millrace::runtime
