#include "runtime/engine/residence.hpp"

#include <algorithm>
#include <utility>

namespace millrace::runtime {

WeightSlots::WeightSlots(std::vector<Of> slots) : slots_(std::move(slots)) {
  int count = 0;
  for (const Of& each : slots_) count = std::max(count, each.slot + 1);
  held_.assign(static_cast<std::size_t>(count), no_stage);
}

std::vector<Residence> WeightSlots::run(const RankPlan& plan, std::vector<Residence> reuse) {
  std::vector<Residence> residences = std::move(reuse);
  residences.clear();
  uses_.assign(held_.size(), {});
  for (int index = 0; index < static_cast<int>(plan.entries.size()); ++index) {
    const StageId stage = plan.entries[static_cast<std::size_t>(index)].action.stage;
    const auto found = std::ranges::find(slots_, stage, &Of::stage);
    if (found == slots_.end()) continue;
    const auto slot = static_cast<std::size_t>(found->slot);
    auto& [used, newest] = uses_[slot];
    if (held_[slot] != stage) {
      held_[slot] = stage;
      newest = static_cast<int>(residences.size());
      residences.push_back({stage, index, index, used});
    }
    used = index + 1;
    if (newest >= 0) residences[static_cast<std::size_t>(newest)].end = index + 1;
  }
  return residences;
}

void WeightSlots::clear() { std::ranges::fill(held_, no_stage); }

std::vector<int> residences_needed(const RankPlan& plan, const std::vector<Residence>& residences, std::vector<int> reuse) {
  std::vector<int> needed = std::move(reuse);
  needed.assign(plan.entries.size(), 0);
  for (std::size_t number = 0; number < residences.size(); ++number)
    for (int index = residences[number].begin; index < residences[number].end; ++index)
      if (plan.entries[static_cast<std::size_t>(index)].action.stage == residences[number].stage)
        needed[static_cast<std::size_t>(index)] = static_cast<int>(number) + 1;
  return needed;
}

}  // namespace millrace::runtime
