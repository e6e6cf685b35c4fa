#include "actors/telemetry/straggler.hpp"

#include "runtime/median.hpp"

namespace millrace::actors {

void StragglerWatch::add(std::span<const StepTimes> ranks) {
  if (copies_ < 2) return;
  ++steps_;
  compute_.resize(ranks.size(), 0);
  const double weight = steps_ <= first_steps ? 1 : 0.2;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    compute_[rank] += weight * (static_cast<double>(ranks[rank].compute) - compute_[rank]);
}

/// How much longer a rank computes than those at its position in the other copies, as a fraction of their median.
double StragglerWatch::excess(std::size_t rank, std::size_t positions) const {
  std::vector<double> others;
  for (std::size_t other = rank % positions; other < compute_.size(); other += positions)
    if (other != rank) others.push_back(compute_[other]);
  const double usual = runtime::median(others);
  return usual > 0 ? compute_[rank] / usual - 1 : 0;
}

std::optional<Straggler> StragglerWatch::slowest(double least) const {
  if (steps_ <= first_steps) return std::nullopt;
  const std::size_t positions = compute_.size() / static_cast<std::size_t>(copies_);
  std::optional<Straggler> found;
  for (std::size_t rank = 0; rank < compute_.size(); ++rank) {
    const double slower = excess(rank, positions);
    if (slower < least || (found && slower <= found->slower)) continue;
    found = Straggler{static_cast<int>(rank / positions), static_cast<int>(rank), slower};
  }
  return found;
}

}  // namespace millrace::actors
