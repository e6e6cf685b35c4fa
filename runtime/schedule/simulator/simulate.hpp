#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// The event that an action waited for last before it began.
enum class Bound : std::uint8_t {
  nothing,     // nothing: the first action of a rank, and it needs no input
  list,        // the previous action of its list
  activation,  // the boundary of the previous stage
  gradient,    // the boundary of the next stage
  slot,        // room in the ring of its output
  window,      // the host, which launches at most issue_ahead entries ahead
  exchange,    // rows of the ranks that share its experts
  weights,     // parameters, which replicas gather
};

/// Why an action began at its time: `source` (by action) ended, `transfers` boundaries of its edge were sent one after another,
/// the host launched `launches` entries, and then the action began.
struct Binding {
  std::uint32_t source = 0;
  std::uint32_t transfers = 0;
  std::uint32_t launches = 0;
  Bound bound = Bound::nothing;
};

/// The composition of a rank's time; with `busy` these parts add up to the makespan.
struct RankTime {
  double busy = 0;
  double activation = 0;  // waits for an activation that was not produced yet
  double gradient = 0;    // waits for a gradient that was not produced yet
  double link = 0;        // waits for a boundary in flight, or in the queue of its link
  double slot = 0;        // waits for room in an output ring
  double exchange = 0;    // waits for rows of the ranks that share its experts
  double weights = 0;     // waits for parameters, which replicas gather
  double launch = 0;      // waits for the host
  double drain = 0;       // from its own last end to that of the last rank
};

/// The waits at one edge: of its consumer for boundaries (not yet produced; in flight), and of its producer for room.
struct EdgeWait {
  double boundary = 0;
  double link = 0;
  double slot = 0;
};

/// The timeline of a step. Arrays "by action" are flat: entry `index` in the list of `rank` is at first[rank] + index.
struct Simulation {
  std::vector<std::size_t> first;  // by rank, and one more: the number of actions
  std::vector<double> begin, end;  // by action; the halves of a pair have the same times
  double makespan = 0;             // end of the last action; the step begins at 0
  double transferred = 0;          // end of the last transfer between replicas; the makespan if there is no later one
  double span = 0;                 // the longest rank: its own last end − its own first begin
  double span_idle = 0;            // the longest time that a rank is idle between its own first begin and last end
  std::vector<RankTime> ranks;
  std::vector<EdgeWait> edges;       // by EdgeId; empty without trace
  std::vector<Binding> bindings;     // by action; empty without trace
  std::vector<std::uint32_t> order;  // actions (the first halves of pairs) in a topological order; empty without trace

  /// The idle fraction of all ranks' time in the step.
  [[nodiscard]] double bubble() const;
  [[nodiscard]] std::size_t actions() const { return begin.size(); }
  [[nodiscard]] std::size_t at(RankId rank, int index) const { return first[rank.index()] + static_cast<std::size_t>(index); }
  /// The inverse of at().
  [[nodiscard]] RankId rank_of(std::size_t action) const;
};

/// Runs the lists in order, each entry as soon as its rank is free, its inputs have arrived, its output rings have room and the
/// host has launched it. An overlapped pair is one entry: it begins when both halves can, and both outputs appear at its end. A
/// ring's slot is taken when the producer of the boundary begins, and freed, in order, when the consumer's last use (W or B; F in
/// a forward-only schedule) ends. Without `trace` only times and `busy` are kept, which is faster and takes half the memory. Time
/// O(actions). The transfers between replicas (Costs::transfers) have a link of their own; an action waits for those that it needs. The
/// schedule must be well formed; Error(config) if it deadlocks. Costs with exchanges: segment_simulation.hpp.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const Costs& costs, bool trace = true);

}  // namespace millrace::runtime
