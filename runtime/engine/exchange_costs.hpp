#pragma once

#include <vector>

#include "runtime/program/program.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// The connection of a rank with those that share its experts, in the unit of the costs.
struct GroupLink {
  int members = 1;            // of the group, the rank among them
  double latency = 0;         // of an exchange
  double bytes_per_unit = 0;  // that a rank sends, and receives at the same time; 0: no limit
};

/// The segments of a stage's training actions and what its exchanges take (training_shape()). A segment's fraction of the action is that of
/// its work.
[[nodiscard]] StageExchanges exchange_costs(const ProgramSet& programs, const GroupLink& link);

/// The costs of these stages by their programs alone, on processors and links as they usually are, in no particular unit.
[[nodiscard]] Costs usual_costs(const std::vector<ProgramSet>& stages, int members);

}  // namespace millrace::runtime
