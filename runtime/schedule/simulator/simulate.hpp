#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// What the begin of an action waited for last.
enum class Bound : std::uint8_t {
  nothing,     // the first action of a rank that needs no token
  list,        // the action before it in its list
  activation,  // the token of the stage before
  gradient,    // the token of the stage after
  slot,        // room in the ring that its output goes to
  window,      // the host, which launches no more than issue_ahead entries ahead
};

/// Why an action began when it did: `source` (by action) ended, `transfers` tokens of its edge went over the link one after another, the
/// host launched `launches` entries, and the action began.
struct Binding {
  std::uint32_t source = 0;
  std::uint32_t transfers = 0;
  std::uint32_t launches = 0;
  Bound bound = Bound::nothing;
};

/// Where a rank's time went; with `busy` these add up to the makespan.
struct RankTime {
  double busy = 0;
  double activation = 0;  // waits for an activation that was not made yet
  double gradient = 0;    // the same for a gradient
  double link = 0;        // waits for a token that was under way, or in the queue of its link
  double slot = 0;        // waits for room in an output ring
  double launch = 0;      // waits for the host
  double drain = 0;       // from its own end to the end of the last rank
};

/// Waits at one edge: of its consumer for tokens (not made yet; under way) and of its producer for room.
struct EdgeWait {
  double token = 0;
  double link = 0;
  double slot = 0;
};

/// A step laid out in time. Arrays "by action" are flat: the entry `index` of the list of `rank` stands at first[rank] + index.
struct Simulation {
  std::vector<std::size_t> first;  // by rank, and one more: the number of actions
  std::vector<double> begin, end;  // by action; the halves of a pair have the same
  double makespan = 0;             // last end; the step begins at 0
  double span = 0;                 // the longest rank: its own last end − its own first begin
  double span_idle = 0;            // the most that a rank stands idle between its own first begin and last end
  std::vector<RankTime> ranks;
  std::vector<EdgeWait> edges;       // by EdgeId; empty without trace
  std::vector<Binding> bindings;     // by action; empty without trace
  std::vector<std::uint32_t> order;  // actions (the first halves of pairs), each after all that it waits for; empty without trace

  /// The idle part of all ranks' time in the step.
  [[nodiscard]] double bubble() const;
  [[nodiscard]] std::size_t actions() const { return begin.size(); }
  [[nodiscard]] std::size_t at(RankId rank, int index) const { return first[rank.index()] + static_cast<std::size_t>(index); }
  /// The inverse of at().
  [[nodiscard]] RankId rank_of(std::size_t action) const;
};

/// Runs the lists in order, each entry as soon as its rank is free, its tokens have arrived, its output rings have room and the host has
/// launched it. An overlapped pair is one entry: it begins when both halves can and both outputs appear at its end. A ring's slot is taken
/// when the token's maker begins and given back, in order, when the consumer's last use (W or B; F in a forward-only schedule) ends.
/// Without `trace` only times and `busy` are kept, which is faster and takes half the memory. Time O(actions).
/// The schedule must be well formed; Error(config) where it is dead.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const Costs& costs, bool trace = true);

}  // namespace millrace::runtime
