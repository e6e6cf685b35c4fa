#include "actors/rank/head_results.hpp"

namespace millrace::actors {
namespace {

/// Calls body(stage, microbatch) for each forward of a head in the list.
template <class Body>
void for_each_head_forward(const Rank& rank, const runtime::RankPlan& list, Body body) {
  for (const auto& planned : list.actions) {
    const auto& action = planned.action;
    if (action.kind == runtime::ActionKind::forward && rank.plan().is_last(action.stage)) body(action.stage, action.microbatch);
  }
}

}  // namespace

void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<double>& losses) {
  losses.clear();
  for_each_head_forward(rank, list, [&](runtime::StageId stage, runtime::MicrobatchId microbatch) {
    losses.push_back(rank.compute().stage(stage).result(microbatch.value)[0]);
  });
}

std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position) {
  std::vector<float> row;
  const auto vocabulary = rank.plan().model.vocab_size;
  for_each_head_forward(rank, list, [&](runtime::StageId stage, runtime::MicrobatchId) {
    const float* logits = rank.compute().logits(stage);
    row.assign(logits + position * vocabulary, logits + (position + 1) * vocabulary);
  });
  return row;
}

}  // namespace millrace::actors
