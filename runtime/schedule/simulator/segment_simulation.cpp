#include "runtime/schedule/simulator/segment_simulation.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/segment_list.hpp"
#include "runtime/schedule/simulator/transfer_lane.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

constexpr double not_yet = -1;

class SegmentSimulator {
 public:
  SegmentSimulator(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), wiring_(schedule), microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
    check_costs(costs, schedule.placement);
    const std::vector<StageShape> shapes = shapes_of(costs.exchanges);
    std::size_t actions = 0;
    for (const auto& list : schedule.ranks) {
      Lane& lane = lanes_.emplace_back();
      lane.segments = segment_list(list, shapes);
      lane.ends.reserve(lane.segments.size());
      if (!costs.transfers.empty()) transfers_.emplace_back(costs.transfers[lanes_.size() - 1], list.size());
      result_.first.push_back(actions);
      actions += list.size();
    }
    result_.first.push_back(actions);
    result_.begin.resize(actions);
    result_.end.resize(actions);
    result_.ranks.resize(lanes_.size());
    result_.edges.resize(wiring_.edges.size());
    rings_.resize(wiring_.edges.size());
    boundaries_.resize(wiring_.edges.size() * microbatches_);
    released_.resize(boundaries_.size(), not_yet);
  }

  Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lanes_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    check_complete();
    summarise();
    return std::move(result_);
  }

 private:
  /// A rank with its link to its group.
  struct Lane {
    std::vector<ListSegment> segments;
    std::size_t next = 0;
    double free = 0;                         // when the last segment ends
    double host = 0;                         // when the host has launched it
    double link = 0;                         // when the last exchange ends
    std::vector<double> ends;                // by segment
    std::vector<double> exchanges;           // by exchange: when its rows are in
    std::array<std::size_t, 2> posted = {};  // by strand: exchanges of its action so far
  };

  struct Boundary {
    double produced = not_yet, arrived = not_yet;
  };

  struct Ring {
    double free = 0;   // when the link has finished the last transfer
    int made = 0;      // boundaries so far
    int released = 0;  // slots that were freed, in order
  };

  /// The event that a segment waited for last.
  struct Wait {
    double until = 0;
    Bound bound = Bound::nothing;
    std::int32_t edge = no_edge.value;
    double produced = 0;  // of a boundary
    void consider(const Wait& other) {
      if (other.until > until) *this = other;
    }
  };

  [[nodiscard]] const Action& action_of(std::size_t rank, const ListSegment& segment) const {
    return schedule_.ranks[rank][static_cast<std::size_t>(segment.action)];
  }
  [[nodiscard]] bool local(std::int32_t edge) const { return wiring_.edges[static_cast<std::size_t>(edge)].local(); }
  [[nodiscard]] std::size_t place(std::int32_t edge, std::size_t index) const {
    return static_cast<std::size_t>(edge) * microbatches_ + index;
  }

  [[nodiscard]] auto ends_of(std::size_t rank) const {
    return [this, rank](std::size_t index) { return result_.end[result_.first[rank] + index]; };
  }

  /// Runs the rank's next segment; false if what it needs has no time yet.
  bool step(std::size_t rank) {
    Lane& lane = lanes_[rank];
    if (lane.next == lane.segments.size()) return false;
    const ListSegment& segment = lane.segments[lane.next];
    const Action& action = action_of(rank, segment);
    Wait wait{lane.host, Bound::window};
    if (segment.begins_action() && !(wait_for_input(action, wait) && wait_for_room(action, wait))) return false;
    if (segment.awaits >= 0 && !wait_for_exchange(rank, static_cast<std::size_t>(segment.awaits), wait)) return false;
    if (!transfers_.empty())
      wait.consider({transfers_[rank].ready(static_cast<std::size_t>(segment.action), ends_of(rank)).time, Bound::weights});
    const auto ahead = static_cast<std::size_t>(costs_.issue_ahead);
    if (costs_.launch > 0 && lane.next >= ahead) wait.consider({lane.ends[lane.next - ahead], Bound::window});
    if (costs_.launch > 0) lane.host = wait.until + costs_.launch;
    const double begin = std::max(lane.free, wait.until + costs_.launch);
    share(rank, begin - lane.free, wait);
    perform(rank, segment, action, begin);
    ++lane.next;
    return true;
  }

  // Producer and consumer of a local edge are entries of one list and run in its order.
  bool wait_for_input(const Action& action, Wait& wait) const {
    const std::int32_t edge = wiring_.input(action);
    if (edge < 0) return true;
    const Boundary& boundary = boundaries_[place(edge, action.microbatch.index())];
    if (boundary.arrived == not_yet) return false;
    if (local(edge)) return true;
    wait.consider({boundary.arrived, action.kind == ActionKind::forward ? Bound::activation : Bound::gradient, edge, boundary.produced});
    return true;
  }

  bool wait_for_room(const Action& action, Wait& wait) const {
    const std::int32_t edge = costs_.slots.empty() ? no_edge.value : wiring_.output(action);
    if (edge < 0) return true;
    const Ring& ring = rings_[static_cast<std::size_t>(edge)];
    const int before = ring.made - costs_.slots[static_cast<std::size_t>(edge)];
    if (before < 0) return true;
    if (before >= ring.released) return false;
    if (!local(edge)) wait.consider({released_[place(edge, static_cast<std::size_t>(before))], Bound::slot, edge});
    return true;
  }

  /// Rows are in when all members have posted theirs and each has had its turn on its link.
  bool wait_for_exchange(std::size_t rank, std::size_t exchange, Wait& wait) const {
    if (costs_.members.empty()) {
      wait.consider({lanes_[rank].exchanges[exchange], Bound::exchange});
      return true;
    }
    for (const RankId member : costs_.members[rank]) {
      const Lane& lane = lanes_[member.index()];
      if (exchange >= lane.exchanges.size()) return false;
      wait.consider({lane.exchanges[exchange], Bound::exchange});
    }
    return true;
  }

  /// Adds a wait of the rank to its causes.
  void share(std::size_t rank, double left, const Wait& wait) {
    RankTime& time = result_.ranks[rank];
    const auto take = [&left](double& sum, double most) {
      const double part = std::clamp(most, 0.0, left);
      sum += part;
      left -= part;
      return part;
    };
    take(time.launch, costs_.launch);
    switch (wait.bound) {
      case Bound::activation:
      case Bound::gradient: {
        EdgeWait& edge = result_.edges[static_cast<std::size_t>(wait.edge)];
        edge.link += take(time.link, wait.until - wait.produced);
        edge.boundary += take(wait.bound == Bound::activation ? time.activation : time.gradient, left);
        break;
      }
      case Bound::slot:
        result_.edges[static_cast<std::size_t>(wait.edge)].slot += take(time.slot, left);
        break;
      case Bound::exchange:
        take(time.exchange, left);
        break;
      case Bound::weights:
        take(time.weights, left);
        break;
      default:
        take(time.launch, left);
    }
  }

  void perform(std::size_t rank, const ListSegment& segment, const Action& action, double begin) {
    Lane& lane = lanes_[rank];
    const SegmentCosts& costs = costs_.exchanges[action.stage.index()].of(action.kind);
    const double share = segment.segments == 1 ? 1 : costs.compute.at(static_cast<std::size_t>(segment.segment));
    double duration = share * costs_.stages[action.stage.index()].of(action.kind) * costs_.noise.factor(RankId{rank}, action);
    for (const Stall& stall : costs_.noise.stalls)
      if (segment.begins_action() && stall.rank == RankId{rank} && stall.index == segment.action) duration += stall.duration;
    const double end = begin + duration;
    lane.free = end;
    lane.ends.push_back(end);
    result_.ranks[rank].busy += end - begin;
    std::size_t& posted = lane.posted[static_cast<std::size_t>(segment.strand)];
    if (segment.begins_action()) posted = 0;
    for (int post = 0; post < segment.posts; ++post) {
      lane.link = std::max(lane.link, end) + costs.exchange.at(posted++);
      lane.exchanges.push_back(lane.link);
    }
    const std::size_t index = result_.first[rank] + static_cast<std::size_t>(segment.action);
    const std::int32_t output = wiring_.output(action);
    if (segment.begins_action()) {
      result_.begin[index] = begin;
      if (output >= 0) ++rings_[static_cast<std::size_t>(output)].made;
    }
    if (!segment.ends_action()) return;
    result_.end[index] = end;
    if (output >= 0) send(output, action, end);
    if (costs_.slots.empty() || !(wiring_.forward_only || ends_microbatch(action.kind))) return;
    for (const std::int32_t input : {wiring_.activation_into(action.stage), wiring_.gradient_into(action.stage)})
      if (input >= 0) release(input, action, end);
  }

  void send(std::int32_t edge, const Action& action, double end) {
    double arrived = end;
    if (!costs_.links.empty() && !local(edge)) {
      Ring& ring = rings_[static_cast<std::size_t>(edge)];
      const LinkCost& link = costs_.links[static_cast<std::size_t>(edge)];
      ring.free = std::max(end, ring.free) + link.occupancy();
      arrived = ring.free + link.latency;
    }
    boundaries_[place(edge, action.microbatch.index())] = {end, arrived};
  }

  // A slot becomes free only when those before it are.
  void release(std::int32_t edge, const Action& action, double end) {
    Ring& ring = rings_[static_cast<std::size_t>(edge)];
    double* times = &released_[place(edge, 0)];
    times[wiring_.ordinal_of(action.microbatch)] = end;
    for (; ring.released < schedule_.microbatches && times[ring.released] != not_yet; ++ring.released)
      if (ring.released > 0) times[ring.released] = std::max(times[ring.released], times[ring.released - 1]);
  }

  void check_complete() const {
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      const Lane& lane = lanes_[rank];
      if (lane.next == lane.segments.size()) continue;
      const ListSegment& segment = lane.segments[lane.next];
      fail(ExitCode::config, schedule_component, "schedule \"{}\" cannot complete: rank {} stops before its action {}, {}", schedule_.name,
           rank, segment.action, action_of(rank, segment));
    }
  }

  void summarise() {
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      if (schedule_.ranks[rank].empty()) continue;
      const double span = lanes_[rank].free - result_.begin[result_.first[rank]];
      result_.makespan = std::max(result_.makespan, lanes_[rank].free);
      result_.span = std::max(result_.span, span);
      result_.span_idle = std::max(result_.span_idle, span - result_.ranks[rank].busy);
    }
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) result_.ranks[rank].drain = result_.makespan - lanes_[rank].free;
    result_.transferred = result_.makespan;
    for (std::size_t rank = 0; rank < transfers_.size(); ++rank)
      result_.transferred = std::max(result_.transferred, transfers_[rank].end(ends_of(rank)));
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Wiring wiring_;
  const std::size_t microbatches_;
  std::vector<Lane> lanes_;              // by rank
  std::vector<TransferLane> transfers_;  // by rank; empty: replicas transfer nothing
  std::vector<Ring> rings_;              // by edge
  std::vector<Boundary> boundaries_;     // by edge and microbatch
  std::vector<double> released_;         // by edge and count
  Simulation result_;
};

}  // namespace

Simulation simulate_segments(const Schedule& schedule, const Costs& costs) { return SegmentSimulator(schedule, costs).run(); }

}  // namespace millrace::runtime
