#include "runtime/schedule/simulator/simulate.hpp"

#include <algorithm>
#include <limits>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/simulator/pair_table.hpp"
#include "runtime/schedule/simulator/segment_simulation.hpp"
#include "runtime/schedule/simulator/transfer_lane.hpp"
#include "runtime/schedule/simulator/waits.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

constexpr double not_yet = -1;
constexpr std::size_t no_boundary = std::numeric_limits<std::size_t>::max();

// A boundary in flight: its arrival time, its producer, and the number of consecutive transfers that ended with it.
struct BoundaryTimes {
  double arrival = not_yet;
  std::uint32_t source = 0;
  std::uint32_t transfers = 0;
};

// The sending side of an edge, and its ring.
struct Channel {
  double free = 0;              // when the link has finished the last transfer
  std::uint32_t source = 0;     // producer of the first boundary in the uninterrupted queue of transfers that ends with the last one
  std::uint32_t transfers = 0;  // length of that queue
  int made = 0;                 // number of boundaries produced so far
  int released = 0;             // number of slots freed, in order
};

// When the slot of a boundary was freed, and by which action.
struct Release {
  double time = not_yet;
  std::uint32_t source = 0;
};

// The latest of the events that something waits for, and which event it was.
struct Latest {
  double time = 0;
  Binding binding;
  void consider(double other, const Binding& candidate) {
    if (other > time) {
      time = other;
      binding = candidate;
    }
  }
};

struct Rank {
  std::size_t next = 0;                // index of the next entry
  double free = 0;                     // when its last entry ends
  Latest host;                         // when the host has launched the last entry
  std::size_t boundary = no_boundary;  // parked until this boundary is produced
  std::int32_t ring = no_edge.value;   // parked until this ring has room
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Costs& costs, bool trace)
      : schedule_(schedule),
        costs_(costs),
        trace_(trace),
        wiring_(schedule),
        pairs_(costs.pairs, schedule.placement.stages()),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
    check_costs(costs, schedule.placement);
    lay_out();
  }

  Simulation run() {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) runnable_.push_back(static_cast<std::int32_t>(rank));
    while (!runnable_.empty()) {
      const auto rank = static_cast<std::size_t>(runnable_.back());
      runnable_.pop_back();
      while (step(rank)) {
      }
    }
    check_complete();
    summarise();
    if (trace_) share_waits(schedule_, costs_, wiring_, result_);
    return std::move(result_);
  }

 private:
  void lay_out() {
    stalls_ = costs_.noise.stalls;
    std::ranges::stable_sort(stalls_, {}, [](const Stall& stall) { return std::pair{stall.rank, stall.index}; });
    ranks_.resize(schedule_.ranks.size());
    for (std::size_t rank = 0; rank < costs_.transfers.size(); ++rank)
      lanes_.emplace_back(costs_.transfers[rank], schedule_.ranks[rank].size());
    channels_.resize(wiring_.edges.size());
    boundaries_.resize(wiring_.edges.size() * microbatches_);
    if (!costs_.slots.empty()) releases_.resize(boundaries_.size());
    std::size_t actions = 0;
    for (const auto& list : schedule_.ranks) {
      result_.first.push_back(actions);
      actions += list.size();
    }
    result_.first.push_back(actions);
    MILLRACE_CHECK(actions < std::numeric_limits<std::uint32_t>::max(), ExitCode::config, schedule_component,
                   "schedule \"{}\" has {} actions, expected less than 2^32", schedule_.name, actions);
    result_.begin.resize(actions);
    result_.end.resize(actions);
    result_.ranks.resize(ranks_.size());
    if (!trace_) return;
    result_.bindings.resize(actions);
    result_.order.reserve(actions);
  }

  std::size_t boundary_of(std::int32_t edge, const Action& action) const {
    return static_cast<std::size_t>(edge) * microbatches_ + action.microbatch.index();
  }

  // Runs the rank's next entry if it can, else parks the rank.
  bool step(std::size_t rank) {
    Rank& state = ranks_[rank];
    const auto& list = schedule_.ranks[rank];
    if (state.next == list.size()) return false;
    const std::size_t size = list[state.next].overlaps_next && state.next + 1 < list.size() ? 2 : 1;
    Latest issue = state.host;
    for (std::size_t half = 0; half < size; ++half) {
      if (!wait_for_inputs(state, list[state.next + half], issue)) return false;
      const bool again = half == 1 && wiring_.output(list[state.next + 1]) == wiring_.output(list[state.next]);  // needs two slots
      if (!costs_.slots.empty() && !wait_for_room(state, list[state.next + half], again ? 1 : 0, issue)) return false;
    }
    perform(rank, size, issue);
    state.next += size;
    return true;
  }

  // Producer and consumer of a local edge are entries of one list and run in its order, so the host launches the second without waiting
  // until the first has ended.
  bool is_local(std::int32_t edge) const { return wiring_.edges[static_cast<std::size_t>(edge)].local(); }

  bool wait_for_inputs(Rank& state, const Action& action, Latest& issue) const {
    const std::int32_t edge = wiring_.input(action);
    if (edge < 0) return true;
    const BoundaryTimes& boundary = boundaries_[boundary_of(edge, action)];
    if (boundary.arrival == not_yet) {
      state.boundary = boundary_of(edge, action);
      return false;
    }
    if (is_local(edge)) return true;
    const Bound bound = action.kind == ActionKind::forward ? Bound::activation : Bound::gradient;
    issue.consider(boundary.arrival, {boundary.source, boundary.transfers, 0, bound});
    return true;
  }

  // Boundary k of a ring needs the slot of boundary k − depth, which is freed after those of all earlier ones.
  bool wait_for_room(Rank& state, const Action& action, int ahead, Latest& issue) const {
    const std::int32_t edge = wiring_.output(action);
    if (edge < 0) return true;
    const Channel& channel = channels_[static_cast<std::size_t>(edge)];
    const int before = channel.made + ahead - costs_.slots[static_cast<std::size_t>(edge)];
    if (before < 0) return true;
    if (before >= channel.released) {
      state.ring = edge;
      return false;
    }
    if (is_local(edge)) return true;
    const Release& release = releases_[static_cast<std::size_t>(edge) * microbatches_ + static_cast<std::size_t>(before)];
    issue.consider(release.time, {release.source, 0, 0, Bound::slot});
    return true;
  }

  void perform(std::size_t rank, std::size_t size, Latest issue) {
    Rank& state = ranks_[rank];
    const std::size_t entry = result_.first[rank] + state.next;
    if (costs_.launch > 0) {
      const auto ahead = static_cast<std::size_t>(costs_.issue_ahead);
      if (state.next >= ahead) issue.consider(result_.end[entry - ahead], {static_cast<std::uint32_t>(entry - ahead), 0, 0, Bound::window});
      issue.time += costs_.launch;
      ++issue.binding.launches;
      state.host = issue;
    }
    Latest start{state.free, {entry > 0 ? static_cast<std::uint32_t>(entry - 1) : 0, 0, 0, state.next > 0 ? Bound::list : Bound::nothing}};
    start.consider(issue.time, issue.binding);
    if (!lanes_.empty()) consider_weights(rank, size, start);
    const double end = start.time + duration(rank, size);
    if (trace_) result_.order.push_back(static_cast<std::uint32_t>(entry));
    for (std::size_t half = 0; half < size; ++half) {
      result_.begin[entry + half] = start.time;
      result_.end[entry + half] = end;
      if (trace_) result_.bindings[entry + half] = start.binding;
    }
    state.free = end;
    result_.ranks[rank].busy += end - start.time;
    for (std::size_t half = 0; half < size; ++half) finish(schedule_.ranks[rank][state.next + half], entry + half, end);
  }

  [[nodiscard]] auto ends_of(std::size_t rank) const {
    return [this, rank](std::size_t index) { return result_.end[result_.first[rank] + index]; };
  }

  // The rank's next entry begins when its parameters are here. They may have been on their way since the step began.
  void consider_weights(std::size_t rank, std::size_t size, Latest& start) {
    const std::size_t next = ranks_[rank].next;
    const auto [time, source] = lanes_[rank].ready(next + size - 1, ends_of(rank));
    // A way without a source goes back along the list.
    const std::size_t from = source >= 0 ? static_cast<std::size_t>(source) : std::max<std::size_t>(next, 1) - 1;
    start.consider(time, {static_cast<std::uint32_t>(result_.first[rank] + from), 0, 0, next == 0 ? Bound::nothing : Bound::weights});
  }

  double duration(std::size_t rank, std::size_t size) const {
    const Rank& state = ranks_[rank];
    const auto& list = schedule_.ranks[rank];
    double sum = 0;
    const int pair = size == 2 ? pairs_.find(list[state.next], list[state.next + 1]) : -1;
    if (pair >= 0) {
      sum = costs_.pairs[static_cast<std::size_t>(pair)].duration * costs_.noise.factor(RankId{rank}, list[state.next]);
    } else {
      for (std::size_t half = 0; half < size; ++half) {
        const Action& action = list[state.next + half];
        sum += costs_.stages[action.stage.index()].of(action.kind) * costs_.noise.factor(RankId{rank}, action);
      }
    }
    const auto place = [](const Stall& stall) { return std::pair{stall.rank.index(), static_cast<std::size_t>(stall.index)}; };
    auto stall = std::ranges::lower_bound(stalls_, std::pair{rank, state.next}, {}, place);
    for (; stall != stalls_.end() && place(*stall) < std::pair{rank, state.next + size}; ++stall) sum += stall->duration;
    return sum;
  }

  // Sends the output of an action and frees the slots that it used for the last time.
  void finish(const Action& action, std::size_t index, double end) {
    const std::int32_t edge = wiring_.output(action);
    if (edge >= 0) send(static_cast<std::size_t>(edge), boundary_of(edge, action), static_cast<std::uint32_t>(index), end);
    if (costs_.slots.empty() || !(wiring_.forward_only || ends_microbatch(action.kind))) return;
    for (const std::int32_t input : {wiring_.activation_into(action.stage), wiring_.gradient_into(action.stage)}) {
      if (input >= 0) release(static_cast<std::size_t>(input), action, static_cast<std::uint32_t>(index), end);
    }
  }

  void send(std::size_t edge, std::size_t boundary, std::uint32_t source, double end) {
    Channel& channel = channels_[edge];
    ++channel.made;
    BoundaryTimes& made = boundaries_[boundary];
    made = {end, source, 0};
    if (!costs_.links.empty() && !is_local(static_cast<std::int32_t>(edge))) {
      const double occupancy = costs_.links[edge].occupancy();
      const bool queued = channel.made > 1 && channel.free > end;
      channel.source = queued ? channel.source : source;
      channel.transfers = queued ? channel.transfers + 1 : 1;
      channel.free = std::max(end, channel.free) + occupancy;
      made = {channel.free + costs_.links[edge].latency, channel.source, channel.transfers};
    }
    Rank& consumer = ranks_[wiring_.edges[edge].consumer_rank.index()];
    if (consumer.boundary != boundary) return;
    consumer.boundary = no_boundary;
    runnable_.push_back(wiring_.edges[edge].consumer_rank.value);
  }

  void release(std::size_t edge, const Action& action, std::uint32_t source, double end) {
    Channel& channel = channels_[edge];
    Release* ring = &releases_[edge * microbatches_];
    ring[wiring_.ordinal_of(action.microbatch)] = {end, source};
    const int before = channel.released;
    while (channel.released < channel.made && ring[channel.released].time != not_yet) {
      // Frees slots in order: a slot becomes free only when those before it are.
      if (channel.released > 0 && ring[channel.released - 1].time > ring[channel.released].time) {
        ring[channel.released] = ring[channel.released - 1];
      }
      ++channel.released;
    }
    const RankId producer = wiring_.edges[edge].producer_rank;
    Rank& waiting = ranks_[producer.index()];
    if (channel.released == before || waiting.ring != static_cast<std::int32_t>(edge)) return;
    waiting.ring = no_edge.value;
    runnable_.push_back(producer.value);
  }

  void check_complete() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& list = schedule_.ranks[rank];
      MILLRACE_CHECK(ranks_[rank].next == list.size(), ExitCode::config, schedule_component,
                     "schedule \"{}\" cannot complete: rank {} stops before its action {}, {}", schedule_.name, rank, ranks_[rank].next,
                     list[ranks_[rank].next]);
    }
  }

  void summarise() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (schedule_.ranks[rank].empty()) continue;
      const double span = ranks_[rank].free - result_.begin[result_.first[rank]];
      result_.makespan = std::max(result_.makespan, ranks_[rank].free);
      result_.span = std::max(result_.span, span);
      result_.span_idle = std::max(result_.span_idle, span - result_.ranks[rank].busy);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) result_.ranks[rank].drain = result_.makespan - ranks_[rank].free;
    result_.transferred = result_.makespan;
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank)
      result_.transferred = std::max(result_.transferred, lanes_[rank].end(ends_of(rank)));
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const bool trace_;
  const Wiring wiring_;
  const PairTable pairs_;
  const std::size_t microbatches_;
  std::vector<Stall> stalls_;  // by rank and entry
  std::vector<Rank> ranks_;
  std::vector<TransferLane> lanes_;        // by rank; empty: replicas transfer nothing
  std::vector<Channel> channels_;          // by edge
  std::vector<BoundaryTimes> boundaries_;  // by edge and microbatch
  std::vector<Release> releases_;          // by edge and count
  std::vector<std::int32_t> runnable_;
  Simulation result_;
};

}  // namespace

double Simulation::bubble() const {
  double busy = 0;
  for (const RankTime& rank : ranks) busy += rank.busy;
  const double whole = makespan * static_cast<double>(ranks.size());
  return whole > 0 ? 1 - busy / whole : 0;
}

RankId Simulation::rank_of(std::size_t action) const {
  return RankId{std::upper_bound(first.begin(), first.end(), action) - first.begin() - 1};
}

Simulation simulate(const Schedule& schedule, const Costs& costs, bool trace) {
  return costs.exchanges.empty() ? Simulator(schedule, costs, trace).run() : simulate_segments(schedule, costs);
}

}  // namespace millrace::runtime
