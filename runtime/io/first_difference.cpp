#include "runtime/io/first_difference.hpp"

#include <map>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

/// A tensor and how often it occurred before in the step: a tensor that is computed twice is compared in order.
using Turn = std::pair<TensorPlace, int>;

class Turns {
 public:
  Turn next(const TensorPlace& place) { return {place, met_[place]++}; }

 private:
  std::map<TensorPlace, int> met_;
};

std::optional<Difference> compare_step(const std::vector<RecordedHash>& left, const std::vector<RecordedHash>& right, Comparison& counts) {
  std::map<Turn, const RecordedHash*> others;
  Turns right_turns, left_turns;
  for (const auto& recorded : right) others[right_turns.next(recorded.place)] = &recorded;
  Difference difference;
  bool found = false;
  for (const auto& recorded : left) {
    const auto other = others.find(left_turns.next(recorded.place));
    if (other == others.end()) {
      ++counts.only_left;
      continue;
    }
    ++difference.compared;
    if (recorded.record.hash == other->second->record.hash) continue;
    ++difference.differing;
    if (std::exchange(found, true)) continue;
    difference.left = recorded;
    difference.right = *other->second;
  }
  counts.only_right += right.size() - difference.compared;
  if (!found) {
    counts.equal_tensors += difference.compared;
    return std::nullopt;
  }
  return difference;
}

}  // namespace

Comparison first_difference(const HashRecording& left, const HashRecording& right) {
  Comparison comparison;
  for (const auto& [step, sum] : left.steps()) {
    const auto other = right.steps().find(step);
    if (other == right.steps().end()) continue;
    if (comparison.first_step == 0) comparison.first_step = step;
    comparison.last_step = step;
    if (comparison.first) continue;
    if (sum == other->second) {
      comparison.equal_tensors += left.count(step);
    } else if (auto difference = compare_step(left.read(step), right.read(step), comparison)) {
      difference->step = step;
      comparison.first = std::move(difference);
      continue;
    }
    ++comparison.equal_steps;
  }
  MILLRACE_CHECK(comparison.first_step > 0, ExitCode::data, "millrace compare",
                 "one run has recorded steps {} to {}, the other {} to {}; expected a common step", left.steps().begin()->first,
                 left.steps().rbegin()->first, right.steps().begin()->first, right.steps().rbegin()->first);
  return comparison;
}

}  // namespace millrace::runtime
