#include "actors/rank/list_transfers.hpp"

#include <algorithm>
#include <utility>

namespace millrace::actors {
namespace {

/// The sum that an entry completes when its action ends, by its place in ListTransfers::sums; -1: none.
int sum_of(const PipelinePlan& plan, const runtime::Reduction& reduction, const runtime::RankPlan& list,
           const runtime::PlannedEntry& entry) {
  if (entry.leaf < 0 || reduction.empty()) return -1;
  if (plan.divides_sums()) return entry.leaf;
  if (list.last_gradients[entry.action.stage.index()] != entry.action) return -1;
  return static_cast<int>(std::ranges::find(reduction.reduced, entry.action.stage, &runtime::StageTransfers::stage) -
                          reduction.reduced.begin());
}

}  // namespace

ListTransfers list_transfers(const PipelinePlan& plan, const runtime::Reduction& reduction, const runtime::RankPlan& list,
                             const std::vector<runtime::Residence>& residences, ListTransfers reuse) {
  ListTransfers transfers = std::move(reuse);
  transfers.sums.clear();
  transfers.sum_of.clear();
  transfers.gathers.clear();
  for (std::size_t index = 0; index < list.entries.size(); ++index) {
    const runtime::PlannedEntry& entry = list.entries[index];
    const int sum = transfers.sum_of.emplace_back(sum_of(plan, reduction, list, entry));
    if (sum < 0 || !entry.ends_action()) continue;
    const auto place = static_cast<std::size_t>(sum);
    transfers.sums.resize(std::max(transfers.sums.size(), place + 1));
    const bool leaves = plan.divides_sums();
    transfers.sums[place] = {.stage = entry.action.stage,
                             .leaf = leaves ? entry.leaf % plan.leaf_slots() : 0,
                             .last = !leaves || list.last_gradients[entry.action.stage.index()] == entry.action,
                             .complete = static_cast<int>(index) + 1};
  }
  // Each gather after those sums that are complete when its slot is free, or before.
  int free = 0;
  for (const runtime::Residence& residence : residences) {
    free = std::max(free, residence.free);
    const auto after = std::ranges::find_if(transfers.sums, [free](const ListedSum& sum) { return sum.complete > free; });
    transfers.gathers.push_back({residence, static_cast<std::size_t>(after - transfers.sums.begin())});
  }
  return transfers;
}

}  // namespace millrace::actors
