#include "actors/rank/list_results.hpp"

#include <algorithm>
#include <span>

namespace millrace::actors {
namespace {

/// Calls body(microbatch) for each forward of a stage in the list.
template <class Body>
void for_each_forward(const runtime::RankPlan& list, runtime::StageId stage, Body body) {
  for (const auto& planned : list.entries) {
    const auto& action = planned.action;
    if (planned.ends_action() && action.kind == runtime::ActionKind::forward && action.stage == stage) body(action.microbatch);
  }
}

}  // namespace

int result_slot(const Rank& rank, runtime::MicrobatchId microbatch) { return rank.plan().schedule.ordinal_of(microbatch); }

void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<runtime::LossTermSums>& losses) {
  const bool trains = std::ranges::any_of(list.entries, [](const auto& planned) { return runtime::makes_gradient(planned.action.kind); });
  std::size_t used = 0;
  for (const runtime::Stage* stage : rank.compute().stages()) {
    for (std::size_t term = 0; term < stage->losses().size(); ++term) {
      if (trains && stage->losses()[term].term.metric()) continue;
      if (used == losses.size()) losses.emplace_back();
      runtime::LossTermSums& own = losses[used];
      own.stage = stage->stage().value;
      own.term = stage->losses()[term].term;
      own.sums.clear();
      for_each_forward(list, stage->stage(), [&](runtime::MicrobatchId microbatch) {
        if (trains || !rank.is_empty(microbatch)) own.sums.push_back(stage->loss_sum(term, result_slot(rank, microbatch)));
      });
      if (!own.sums.empty()) ++used;  // with fewer microbatches than replicas, some have none
    }
  }
  losses.resize(used);
}

void observations_of(const Rank& rank, const runtime::RankPlan& list, std::vector<runtime::ObservedSums>& observed) {
  std::size_t used = 0;
  for (const runtime::Stage* stage : rank.compute().stages()) {
    for (std::size_t place = 0; place < stage->observations().size(); ++place) {
      if (used == observed.size()) observed.emplace_back();
      runtime::ObservedSums& own = observed[used++];
      const runtime::StageObservation& observation = stage->observations()[place];
      const runtime::ValueType& type = stage->programs().value(observation.value).type;
      own.stage = stage->stage().value;
      own.layer = observation.layer;
      own.name = observation.name;
      own.scope = observation.scope;
      own.width = static_cast<std::int32_t>(type.shape.elements());
      own.values.clear();
      const auto width = static_cast<std::size_t>(own.width);
      const bool integers = type.dtype == kernels::DType::i32;
      const auto steps = static_cast<std::size_t>(rank.plan().accumulation_steps);
      const std::size_t of_a_step = std::max<std::size_t>(static_cast<std::size_t>(list.microbatches) / steps, 1);
      if (integers) own.values.resize(steps * width, 0.0);
      for_each_forward(list, stage->stage(), [&](runtime::MicrobatchId microbatch) {
        if (!integers) own.values.resize(own.values.size() + width, 0.0);
        const std::size_t begin = integers ? std::min(microbatch.index() / of_a_step, steps - 1) * width : own.values.size() - width;
        stage->add_observed(place, result_slot(rank, microbatch), std::span(own.values).subspan(begin, width));
      });
    }
  }
  observed.resize(used);
}

std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position) {
  std::vector<float> row;
  const auto vocabulary = rank.plan().model.vocab_size;
  for (const runtime::Stage* stage : rank.compute().stages()) {
    if (!rank.plan().is_last(stage->stage()) || rank.plan().schedule.placement.replica_of(stage->stage()) > 0) continue;
    for_each_forward(list, stage->stage(), [&](runtime::MicrobatchId) {
      const float* logits = rank.compute().logits(stage->stage());
      row.assign(logits + position * vocabulary, logits + (position + 1) * vocabulary);
    });
  }
  return row;
}

}  // namespace millrace::actors
