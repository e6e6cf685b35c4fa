#include "runtime/schedule/generators/building_block.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/schedule/generators/list_writer.hpp"

namespace millrace::runtime {
namespace {

constexpr int period = 6;

// Blocks start every `period` units, and each holds memory from `begin` to `end`. Returns how many hold it at a time ≡ `phase`,
// long after the first of them (`far`).
int holding(int begin, int end, int phase) {
  const int far = phase + period * (2 + end / period);
  return (far - begin) / period - (far - end) / period;
}

// The first time after `start` that is congruent to `residue`.
int next_on(int residue, int start) { return start + (residue - start % period + period) % period; }

struct Option {
  int lag = 0;   // delay of both weight gradients after their input gradients
  int peak = 0;  // in stashes
};

Option option_of(const BuildingBlock& block, int residue_up, int residue_down) {
  const int weight_up = next_on(residue_up, block.input_up);
  const int weight_down = next_on(residue_down, block.input_down);
  Option option{weight_up - block.input_up + weight_down - block.input_down, 0};
  for (int phase = 0; phase < period; ++phase) {
    const int held = holding(block.forward_down, weight_down + 1, phase) + holding(block.forward_up, weight_up + 1, phase);
    option.peak = std::max(option.peak, held);
  }
  return option;
}

// An F or an I of a list without its microbatch, which the writer adds.
struct Step {
  int time = 0;
  StageId stage;
  ActionKind kind = ActionKind::forward;
};

std::vector<Step> steps_of(const Placement& placement, RankId rank, int microbatches, const BuildingBlock& block) {
  const StageId down = placement.stage_of(rank, 0);
  const StageId up = placement.stage_of(rank, 1);
  std::vector<Step> steps;
  for (int m = 0; m < microbatches; ++m) {
    const int start = period * m;
    steps.push_back({start + block.forward_down, down, ActionKind::forward});
    steps.push_back({start + block.forward_up, up, ActionKind::forward});
    steps.push_back({start + block.input_up, up, ActionKind::input_gradient});
    steps.push_back({start + block.input_down, down, ActionKind::input_gradient});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.time < b.time; });
  return steps;
}

// Simulates all ranks unit by unit; a rank decides by what was finished before the unit.
class LeftShift {
 public:
  LeftShift(Schedule& schedule, BuildingBlock (*block)(int, int)) : placement_(schedule.placement) {
    const int ranks = placement_.ranks();
    finished_.resize(static_cast<std::size_t>(placement_.stages()));
    for (int rank = 0; rank < ranks; ++rank) {
      const BuildingBlock own = block(ranks, rank);
      ranks_.push_back({ListWriter(schedule, RankId{rank}), steps_of(placement_, RankId{rank}, schedule.microbatches, own)});
      memory_ = std::max(memory_, block_memory(own));
    }
  }

  void run() {
    for (bool working = true; working;) {
      working = false;
      started_ = finished_;
      for (Rank& rank : ranks_) {
        choose(rank);
        working = working || rank.next < rank.steps.size();
      }
      finished_ = started_;
    }
    for (Rank& rank : ranks_) rank.list.remaining_weight_gradients();
  }

 private:
  struct Rank {
    ListWriter list;
    std::vector<Step> steps;
    std::size_t next = 0;
    int held = 0, owed = 0;  // stashes held from F to W; weight gradients whose I is done
  };
  struct Count {
    int forwards = 0, gradients = 0;
  };

  void choose(Rank& rank) {
    if (rank.next == rank.steps.size()) return;
    const Step& step = rank.steps[rank.next];
    const bool full = step.kind == ActionKind::forward && rank.held >= memory_;
    if (rank.owed > 0 && (full || !ready(step))) {
      rank.list.weight_gradient();
      --rank.owed;
      --rank.held;
    } else if (ready(step)) {
      take(rank, step);
    }
  }

  [[nodiscard]] bool ready(const Step& step) const {
    const Count& own = finished_[step.stage.index()];
    if (step.kind == ActionKind::forward) {
      const auto before = placement_.previous(step.stage);
      return !before || finished_[before->index()].forwards > own.forwards;
    }
    const auto after = placement_.next(step.stage);
    return own.forwards > own.gradients && (!after || finished_[after->index()].gradients > own.gradients);
  }

  void take(Rank& rank, const Step& step) {
    Count& own = started_[step.stage.index()];
    ++rank.next;
    if (step.kind == ActionKind::forward) {
      rank.list.forward(step.stage);
      ++own.forwards;
      ++rank.held;
    } else {
      rank.list.input_gradient(step.stage);
      ++own.gradients;
      ++rank.owed;
    }
  }

  const Placement& placement_;
  int memory_ = 0;  // limit of stashes when a rank starts an F; the same for all ranks
  std::vector<Rank> ranks_;
  std::vector<Count> started_, finished_;  // by stage
};

}  // namespace

int block_memory(const BuildingBlock& block) {
  std::array<bool, period> taken{};
  for (int time : {block.forward_down, block.forward_up, block.input_up, block.input_down}) {
    bool& place = taken[static_cast<std::size_t>(time % period)];
    MILLRACE_CHECK(!place, ExitCode::internal, "runtime.schedule", "a building block has two actions at times equal to {} mod {}", time,
                   period);
    place = true;
  }
  const auto free_place = [&taken](int from) {
    while (taken[static_cast<std::size_t>(from)]) ++from;
    return from;
  };
  const int first = free_place(0);
  const int second = free_place(first + 1);
  const Option one = option_of(block, first, second);
  const Option other = option_of(block, second, first);
  if (one.lag == other.lag) return std::min(one.peak, other.peak);
  return one.lag < other.lag ? one.peak : other.peak;
}

Schedule repeat_block(std::string name, int ranks, int microbatches, BuildingBlock (*block)(int ranks, int rank)) {
  Schedule schedule = blank_schedule(std::move(name), Placement::v_shape(ranks), microbatches);
  LeftShift(schedule, block).run();
  return schedule;
}

}  // namespace millrace::runtime
