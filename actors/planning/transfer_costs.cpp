#include "actors/planning/transfer_costs.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "actors/rank/list_transfers.hpp"

namespace millrace::actors {
namespace {

std::uint64_t sum_of(const std::vector<std::int64_t>& bytes) {
  return static_cast<std::uint64_t>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
}

class Pricing {
 public:
  Pricing(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs, const PlannedLinks& links)
      : plan_(plan),
        links_(links),
        blueprint_(plan, rank, needs),
        compute_(blueprint_.build(true)),
        actions_(plan.schedule.ranks[rank.index()]) {
    for (std::size_t place = 0; place < actions_.size(); ++place) places_[key(actions_[place])] = static_cast<int>(place);
  }

  RankTransfers run() {
    if (!compute_->reduction().empty()) add_listed();
    add_messages();
    return transfers_;
  }

 private:
  void add_listed() {
    runtime::WeightSlots slots = compute_->weight_slots();
    const ListTransfers listed = list_transfers(plan_, compute_->reduction(), blueprint_.training, slots.run(blueprint_.training));
    if (!plan_.divides_masters()) add_update();
    auto gather = listed.gathers.begin();
    for (std::size_t sum = 0; sum <= listed.sums.size(); ++sum) {
      for (; gather != listed.gathers.end() && gather->after == sum; ++gather) add(*gather);
      if (sum < listed.sums.size()) add(listed.sums[sum]);
    }
  }

  void add(std::uint64_t sent, std::uint64_t received, int after, int before) {
    if (sent == 0 && received == 0) return;
    transfers_.sent += sent;
    const double bytes = static_cast<double>(std::max(sent, received));
    transfers_.list.push_back({after, before, links_.latency + (links_.bytes_per_unit > 0 ? bytes / links_.bytes_per_unit : 0)});
  }

  void add(const runtime::TransferTable& table, int after, int before) {
    add(sum_of(table.send_bytes), sum_of(table.receive_bytes), after, before);
  }

  /// The gathers of a stage, before this action.
  void add_gathers(runtime::StageId stage, int after, int before) {
    const auto& stages = compute_->reduction().gathered;
    const auto of_stage = std::ranges::find(stages, stage, &runtime::StageTransfers::stage);
    for (std::size_t index = of_stage->begin; index < of_stage->end; ++index)
      add(compute_->reduction().gathers[index].table, after, before);
  }

  /// After the update, before the stage's first action.
  void add_update() {
    for (const runtime::StageTransfers& stage : compute_->reduction().gathered) {
      const auto first = std::ranges::find(actions_, stage.stage, &runtime::Action::stage);
      add_gathers(stage.stage, 0, static_cast<int>(first - actions_.begin()));
    }
  }

  void add(const ListedGather& gather) {
    add_gathers(gather.residence.stage, finished(gather.residence.free), action_of(gather.residence.begin));
  }

  void add(const ListedSum& sum) {
    const auto& stages = compute_->reduction().reduced;
    const auto of_stage = std::ranges::find(stages, sum.stage, &runtime::StageTransfers::stage);
    const int after = finished(sum.complete);
    for (std::size_t index = of_stage->begin; index < of_stage->end; ++index) {
      const runtime::ReductionStep& step = compute_->reduction().steps[index];
      if (step.experts && !sum.last) continue;
      for (const runtime::ReductionStep::Sum& each : step.sums) add(each.table, after, -1);
    }
  }

  /// After the list: whole sums, to all who have the same weights; or where the update is divided, of tables to those who use them
  /// elsewhere.
  void add_messages() {
    const runtime::RankId rank = blueprint_.training.rank;
    std::uint64_t sent = 0, received = 0;
    for (const SumMessage& message : plan_.sums) {
      if (message.from == rank) sent += message.bytes();
      if (message.to == rank) received += message.bytes();
    }
    add(sent, received, static_cast<int>(actions_.size()), -1);
  }

  /// The place of an entry's action in the schedule's list; and how many of that list's actions have ended after so many entries.
  [[nodiscard]] int action_of(int entry) const {
    const runtime::Action& action = blueprint_.training.entries[static_cast<std::size_t>(entry)].action;
    return places_.at(key(action));
  }
  [[nodiscard]] int finished(int entries) const { return entries == 0 ? 0 : action_of(entries - 1) + 1; }

  using Key = std::tuple<runtime::StageId, runtime::ActionKind, runtime::MicrobatchId>;
  static Key key(const runtime::Action& action) { return {action.stage, action.kind, action.microbatch}; }

  const PipelinePlan& plan_;
  const PlannedLinks& links_;
  RankBlueprint blueprint_;
  std::unique_ptr<runtime::RankCompute> compute_;
  const std::vector<runtime::Action>& actions_;
  std::map<Key, int> places_;  // in `actions_`
  RankTransfers transfers_;
};

}  // namespace

RankTransfers transfer_costs(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs, const PlannedLinks& links) {
  if (plan.replicas() == 1) return {};
  return Pricing(plan, rank, needs, links).run();
}

}  // namespace millrace::actors
