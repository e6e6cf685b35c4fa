#include "runtime/schedule/generators/list_writer.hpp"

#include <algorithm>

namespace millrace::runtime {

Schedule blank_schedule(std::string name, Placement placement, int microbatches) {
  Schedule schedule{std::move(name), std::move(placement), microbatches, {}};
  schedule.ranks.resize(static_cast<std::size_t>(schedule.placement.ranks()));
  return schedule;
}

ListWriter::ListWriter(Schedule& schedule, RankId rank)
    : schedule_(schedule), list_(schedule.ranks.at(rank.index())), counts_(schedule.placement.stages_of(rank).size()) {}

ListWriter::Count& ListWriter::count(StageId stage) { return counts_.at(static_cast<std::size_t>(schedule_.placement.chunk_of(stage))); }

void ListWriter::write(StageId stage, ActionKind kind, int ordinal) {
  if (ordinal >= schedule_.microbatches_of(stage)) return;
  list_.push_back({stage, kind, schedule_.microbatch_of(stage, ordinal)});
}

void ListWriter::pay(std::deque<Debt>::iterator debt) {
  write(debt->stage, ActionKind::weight_gradient, debt->ordinal);
  owed_.erase(debt);
}

void ListWriter::forward(StageId stage) { write(stage, ActionKind::forward, count(stage).forwards++); }

void ListWriter::backward(StageId stage) { write(stage, ActionKind::backward, count(stage).gradients++); }

void ListWriter::input_gradient(StageId stage) {
  const int ordinal = count(stage).gradients++;
  write(stage, ActionKind::input_gradient, ordinal);
  owed_.push_back({stage, ordinal});
}

void ListWriter::weight_gradient(StageId stage) {
  const auto debt = std::find_if(owed_.begin(), owed_.end(), [stage](const Debt& owed) { return owed.stage == stage; });
  if (debt != owed_.end()) pay(debt);
}

void ListWriter::weight_gradient() {
  if (!owed_.empty()) pay(owed_.begin());
}

void ListWriter::remaining_weight_gradients(StageId stage) {
  for (std::size_t before = owed_.size() + 1; owed_.size() < before;) {
    before = owed_.size();
    weight_gradient(stage);
  }
}

void ListWriter::remaining_weight_gradients() {
  while (!owed_.empty()) weight_gradient();
}

void ListWriter::overlapped(StageId forward_stage, StageId backward_stage) {
  const std::size_t first = list_.size();
  forward(forward_stage);
  backward(backward_stage);
  // Past the last microbatch one half may be missing; then the other half is a single action.
  if (list_.size() == first + 2) list_[first].overlaps_next = true;
}

}  // namespace millrace::runtime
