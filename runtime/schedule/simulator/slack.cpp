// Computes slack by running the simulation backward. Every action gets the latest end at which all its successors can still meet
// the makespan.

#include <algorithm>
#include <limits>

#include "kernels/base/check.hpp"
#include "runtime/schedule/simulator/critical_path.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class Backwards {
 public:
  Backwards(const Schedule& schedule, const Costs& costs, const Simulation& simulation)
      : schedule_(schedule),
        costs_(costs),
        simulation_(simulation),
        wiring_(schedule),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        latest_(simulation.actions(), simulation.makespan),
        latest_arrival_(wiring_.edges.size() * microbatches_, never),
        next_transfer_(wiring_.edges.size(), never),
        host_(schedule.ranks.size(), never) {
    if (!costs.slots.empty()) room_.assign(latest_arrival_.size(), never);
  }

  std::vector<double> run() {
    for (auto entry = simulation_.order.rbegin(); entry != simulation_.order.rend(); ++entry) visit(*entry);
    for (std::size_t action = 0; action < latest_.size(); ++action)
      latest_[action] = std::max(0.0, latest_[action] - simulation_.end[action]);
    return std::move(latest_);
  }

 private:
  // Visits an entry after everything that waits for it has been visited.
  void visit(std::size_t entry) {
    const RankId rank = simulation_.rank_of(entry);
    const auto& list = schedule_.ranks[rank.index()];
    const std::size_t first = simulation_.first[rank.index()];
    const std::size_t size = list[entry - first].overlaps_next && entry - first + 1 < list.size() ? 2 : 1;
    double end = latest_[entry];
    for (std::size_t half = 0; half < size; ++half) {
      const Action& action = list[entry - first + half];
      end = std::min({end, latest_[entry + half], latest_send(action), latest_release(action)});
    }
    const double begin = end - (simulation_.end[entry] - simulation_.begin[entry]);
    for (std::size_t half = 0; half < size; ++half) latest_[entry + half] = end;
    if (entry > first) lower(latest_[entry - 1], begin);

    const double launched = std::min(begin, host_[rank.index()]);
    const double known = launched - costs_.launch;
    host_[rank.index()] = known;
    const auto ahead = static_cast<std::size_t>(costs_.issue_ahead);
    if (costs_.launch > 0 && entry >= first + ahead) lower(latest_[entry - ahead], known);
    for (std::size_t half = 0; half < size; ++half) demand(list[entry - first + half], known);
  }

  bool is_local(std::int32_t edge) const { return wiring_.edges[static_cast<std::size_t>(edge)].local(); }
  static void lower(double& time, double bound) { time = std::min(time, bound); }

  std::size_t boundary_of(std::int32_t edge, const Action& action) const {
    return static_cast<std::size_t>(edge) * microbatches_ + action.microbatch.index();
  }
  std::size_t count_of(std::int32_t edge, const Action& action) const {
    return static_cast<std::size_t>(edge) * microbatches_ + static_cast<std::size_t>(wiring_.ordinal_of(action.microbatch));
  }

  // Requires that the entry has its inputs, and the slots that it fills, by the time `known`. Those of local edges follow from the order of
  // the list.
  void demand(const Action& action, double known) {
    const std::int32_t in = wiring_.input(action);
    if (in >= 0 && !is_local(in)) lower(latest_arrival_[boundary_of(in, action)], known);
    const std::int32_t out = wiring_.output(action);
    if (room_.empty() || out < 0 || is_local(out)) return;
    const int before = wiring_.ordinal_of(action.microbatch) - costs_.slots[static_cast<std::size_t>(out)];
    if (before >= 0) lower(room_[static_cast<std::size_t>(out) * microbatches_ + static_cast<std::size_t>(before)], known);
  }

  double latest_send(const Action& action) {
    const std::int32_t edge = wiring_.output(action);
    if (edge < 0) return never;
    const double arrival = latest_arrival_[boundary_of(edge, action)];
    if (costs_.links.empty() || is_local(edge)) return arrival;
    const LinkCost& link = costs_.links[static_cast<std::size_t>(edge)];
    double& next = next_transfer_[static_cast<std::size_t>(edge)];
    next = std::min(arrival - link.latency, next) - link.occupancy();
    return next;
  }

  double latest_release(const Action& action) const {
    if (room_.empty() || !(wiring_.forward_only || ends_microbatch(action.kind))) return never;
    double latest = never;
    for (const std::int32_t edge : {wiring_.activation_into(action.stage), wiring_.gradient_into(action.stage)}) {
      if (edge >= 0) lower(latest, room_[count_of(edge, action)]);
    }
    return latest;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Simulation& simulation_;
  const Wiring wiring_;
  const std::size_t microbatches_;
  std::vector<double> latest_;          // by action: latest end
  std::vector<double> latest_arrival_;  // by edge and microbatch: latest arrival
  std::vector<double> room_;            // by edge and count: latest time at which its slot is freed
  std::vector<double> next_transfer_;   // by edge: latest begin of the following transfer
  std::vector<double> host_;            // by rank: latest begin of the following launch
};

}  // namespace

std::vector<double> slack(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  MILLRACE_CHECK(simulation.bindings.size() == simulation.actions(), ExitCode::internal, "runtime.schedule",
                 "a simulation without trace, expected simulate(schedule, costs, true)");
  return Backwards(schedule, costs, simulation).run();
}

}  // namespace millrace::runtime
