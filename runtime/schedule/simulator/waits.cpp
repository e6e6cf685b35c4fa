#include "runtime/schedule/simulator/waits.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

class Sharing {
 public:
  Sharing(const Schedule& schedule, const Costs& costs, const Wiring& wiring, Simulation& simulation)
      : schedule_(schedule), costs_(costs), wiring_(wiring), simulation_(simulation) {
    simulation_.edges.assign(wiring.edges.size(), {});
  }

  void share(std::size_t rank, std::size_t action) {
    const bool first = action == simulation_.first[rank];
    left_ = simulation_.begin[action] - (first ? 0 : simulation_.end[action - 1]);
    if (left_ <= 0) return;
    RankTime& time = simulation_.ranks[rank];
    const Binding& binding = simulation_.bindings[action];
    // Goes backward from the begin of the action: first the launches, then the transfer of the boundary, then the time until it
    // was produced.
    const double launches = binding.launches * costs_.launch;
    take(time.launch, launches);
    switch (binding.bound) {
      case Bound::activation:
      case Bound::gradient: {
        EdgeWait& edge = simulation_.edges[static_cast<std::size_t>(wiring_.output(action_at(binding.source)))];
        edge.link += take(time.link, simulation_.begin[action] - launches - simulation_.end[binding.source]);
        edge.boundary += take(binding.bound == Bound::activation ? time.activation : time.gradient, left_);
        break;
      }
      case Bound::slot:
        simulation_.edges[ring_between(rank, action, action_at(binding.source).stage)].slot += take(time.slot, left_);
        break;
      case Bound::weights:
        take(time.weights, left_);
        break;
      default:
        take(first && !costs_.transfers.empty() ? time.weights : time.launch, left_);
    }
  }

 private:
  // Moves up to `max` of the remaining time to `sum`.
  double take(double& sum, double max) {
    const double part = std::clamp(max, 0.0, left_);
    sum += part;
    left_ -= part;
    return part;
  }

  const Action& action_at(std::size_t action) const {
    const std::size_t rank = simulation_.rank_of(action).index();
    return schedule_.ranks[rank][action - simulation_.first[rank]];
  }

  // The ring that the stage empties and the action fills, or the nearest ring before it, since one launch may have delayed the
  // following ones.
  std::size_t ring_between(std::size_t rank, std::size_t action, StageId consumer) const {
    const auto& list = schedule_.ranks[rank];
    const std::size_t index = action - simulation_.first[rank];
    for (std::size_t at = std::min(index + 2, list.size()); at-- > 0;) {
      const std::int32_t edge = wiring_.output(list[at]);
      if (edge >= 0 && wiring_.edges[static_cast<std::size_t>(edge)].consumer == consumer) return static_cast<std::size_t>(edge);
    }
    return 0;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Wiring& wiring_;
  Simulation& simulation_;
  double left_ = 0;
};

}  // namespace

void share_waits(const Schedule& schedule, const Costs& costs, const Wiring& wiring, Simulation& simulation) {
  Sharing sharing(schedule, costs, wiring, simulation);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t action = simulation.first[rank]; action < simulation.first[rank + 1]; ++action) {
      const bool second_half = action > simulation.first[rank] && schedule.ranks[rank][action - 1 - simulation.first[rank]].overlaps_next;
      if (!second_half) sharing.share(rank, action);
    }
  }
}

}  // namespace millrace::runtime
