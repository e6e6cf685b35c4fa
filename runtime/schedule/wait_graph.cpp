#include "runtime/schedule/wait_graph.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

const StuckRank* find(const std::vector<StuckRank>& stuck, RankId rank) {
  const auto found = std::find_if(stuck.begin(), stuck.end(), [rank](const StuckRank& entry) { return entry.rank == rank; });
  return found == stuck.end() ? nullptr : &*found;
}

// Each rank waits for at most one other, so following the waits either ends or closes a cycle.
std::vector<RankId> find_cycle(const std::vector<StuckRank>& stuck) {
  for (const StuckRank& start : stuck) {
    std::vector<RankId> path;
    const StuckRank* at = &start;
    while (at && std::find(path.begin(), path.end(), at->rank) == path.end()) {
      path.push_back(at->rank);
      at = find(stuck, at->waits_for);
    }
    if (at) return {std::find(path.begin(), path.end(), at->rank), path.end()};
  }
  return {};
}

std::string in_words(const std::vector<RankId>& cycle) {
  if (cycle.size() == 1) return fmt::format("cycle: rank {} waits for itself\n", cycle[0]);
  std::string text = fmt::format("cycle: rank {}", cycle.front());
  for (std::size_t i = 1; i <= cycle.size(); ++i) {
    text += fmt::format(" waits for rank {}{}", cycle[i % cycle.size()], i < cycle.size() ? ", which" : "");
  }
  return text + "\n";
}

}  // namespace

Liveness explain(const std::vector<StuckRank>& stuck) {
  Liveness result;
  result.live = stuck.empty();
  for (const StuckRank& entry : stuck) {
    result.report += fmt::format("rank {} is stuck at {}: {}", entry.rank, entry.entry, entry.lacks);
    const StuckRank* other = entry.waits_for == entry.rank ? nullptr : find(stuck, entry.waits_for);
    if (other) result.report += fmt::format("; rank {} is stuck at {}", other->rank, other->at);
    result.report += "\n";
  }
  result.cycle = find_cycle(stuck);
  if (!result.cycle.empty()) result.report += in_words(result.cycle);
  return result;
}

}  // namespace millrace::runtime
