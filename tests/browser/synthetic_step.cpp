#include "tests/browser/synthetic_step.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/engine/trace.hpp"
#include "runtime/schedule/causality.hpp"

namespace millrace::tests {
namespace {

using namespace runtime;

constexpr double lead = 1.6, order = 0.4, gather = 0.5, update = 4.2, copy = 2.8;  // ms, see SyntheticStep

std::string kind_of(const Action& action) { return std::string(1, letter_of(action.kind)); }

class StepWriter {
 public:
  StepWriter(const Schedule& schedule, const Costs& costs, const Simulation& plan, double begin)
      : schedule_(schedule), run_(simulate(schedule, costs)), plan_(plan), table_(schedule), shift_(begin + lead) {
    step_.begin = begin;
  }

  SyntheticStep write(bool snapshot) {
    step_.duration = lead + run_.makespan + gather + update + (snapshot ? copy : 0);
    step_.measured = step_.waits = step_.sends = step_.attribution = step_.wall = Json::array();
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) write_rank(rank, snapshot);
    return std::move(step_);
  }

 private:
  const Action& action(std::size_t at) const {
    const std::size_t rank = run_.rank_of(at).index();
    return schedule_.ranks[rank][at - run_.first[rank]];
  }

  void write_rank(std::size_t rank, bool snapshot) {
    spent_.clear();
    not_made_ = 0;
    Json measured = Json::array(), waits = Json::array();
    double free = 0;
    if (!schedule_.placement.previous(schedule_.ranks[rank].front().stage)) {
      waits.push_back({"batch", schedule_.ranks[rank].front().stage.value, 0, rounded(step_.begin + order), rounded(shift_), -1, nullptr});
      spent_["data"] += lead - order;
    }
    for (std::size_t index = 0; index < schedule_.ranks[rank].size(); ++index) {
      const std::size_t at = run_.first[rank] + index;
      if (run_.begin[at] > free + 1e-9) write_wait(waits, at, free);
      write_action(measured, rank, index);
      write_send(rank, at);
      free = std::max(free, run_.end[at]);
    }
    not_made_ += run_.makespan - free;  // until the last rank has finished
    const double updated = shift_ + run_.makespan + gather;
    measured.push_back({"O", -1, -1, rounded(updated), rounded(updated + update)});
    spent_["optimizer"] += update;
    if (snapshot) {
      measured.push_back({"S", -1, -1, rounded(updated + update), rounded(updated + update + copy)});
      spent_["checkpoint"] += copy;
    }
    step_.measured.push_back(measured);
    step_.waits.push_back(waits);
    close_account(rank);
  }

  // The halves of a pair are shown one after the other.
  void write_action(Json& measured, std::size_t rank, std::size_t index) {
    const auto& list = schedule_.ranks[rank];
    const std::size_t at = run_.first[rank] + index;
    double begin = run_.begin[at], end = run_.end[at];
    const double middle = (begin + end) / 2;
    if (list[index].overlaps_next) end = middle;
    if (index > 0 && list[index - 1].overlaps_next) begin = middle;
    measured.push_back(
        {kind_of(list[index]), list[index].stage.value, list[index].microbatch.value, rounded(begin + shift_), rounded(end + shift_)});
    spent_[to_string(span_of(list[index].kind))] += end - begin;
  }

  void write_wait(Json& waits, std::size_t at, double since) {
    const Binding& binding = run_.bindings[at];
    const double until = run_.begin[at];
    const auto put = [&](const char* kind, const Json& produced) {
      waits.push_back({kind, action(at).stage.value, action(at).microbatch.value, rounded(since + shift_), rounded(until + shift_),
                       run_.rank_of(binding.source).value, produced});
    };
    if (binding.bound == Bound::activation || binding.bound == Bound::gradient) {
      const double made = std::clamp(run_.end[binding.source], since, until);
      put(binding.bound == Bound::activation ? "activation" : "gradient", rounded(run_.end[binding.source] + shift_));
      not_made_ += made - since;
      spent_["transfer"] += until - made;
    } else if (binding.bound == Bound::slot) {
      put("credit", nullptr);
      spent_["transport"] += until - since;
    }
  }

  void write_send(std::size_t rank, std::size_t at) {
    const auto source = table_.boundary_source(action(at));
    if (!source || source->rank.index() == rank) return;
    const std::size_t maker = run_.at(source->rank, source->index);
    step_.sends.push_back({source->rank.value, rank, action(maker).kind == ActionKind::forward ? "F" : "B", action(maker).microbatch.value,
                           action(maker).stage.value, rounded(run_.end[maker] + shift_), rounded(run_.begin[at] + shift_)});
  }

  // Idle time in the plan counts as bubble; idle time beyond that is due to ranks that were slower than planned.
  void close_account(std::size_t rank) {
    const double planned = plan_.makespan - plan_.ranks[rank].busy;
    spent_["bubble"] = std::min(not_made_, planned);
    spent_["imbalance"] = not_made_ - spent_["bubble"];
    double known = 0;
    for (const auto& [cause, ms] : spent_) known += ms;
    spent_["other"] = step_.duration - known;
    Json numbers = Json::array();
    for (const std::string& cause : causes()) numbers.push_back(rounded(spent_[cause]));
    step_.attribution.push_back(numbers);
    step_.wall.push_back(rounded(step_.duration));
  }

  const Schedule& schedule_;
  Simulation run_;
  const Simulation& plan_;
  ActionTable table_;
  double shift_;
  double not_made_ = 0;                  // of the current rank, ms
  std::map<std::string, double> spent_;  // of the current rank, ms by cause
  SyntheticStep step_;
};

}  // namespace

const std::vector<std::string>& causes() {
  static const std::vector<std::string> names{"forward",   "input_gradient", "weight_gradient", "backward",
                                              "optimizer", "bubble",         "imbalance",       "transfer",
                                              "data",      "checkpoint",     "transport",       "other"};
  return names;
}

double rounded(double ms) { return std::round(ms * 1e4) / 1e4; }

SyntheticStep synthetic_step(const Schedule& schedule, const Costs& costs, const Simulation& plan, double begin, bool snapshot) {
  return StepWriter(schedule, costs, plan, begin).write(snapshot);
}

Json planned_lists(const Schedule& schedule, const Simulation& plan, double begin) {
  Json lists = Json::array();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    Json list = Json::array();
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const Action& action = schedule.ranks[rank][index];
      const std::size_t at = plan.first[rank] + index;
      list.push_back(
          {kind_of(action), action.stage.value, action.microbatch.value, rounded(plan.begin[at] + begin), rounded(plan.end[at] + begin)});
    }
    lists.push_back(list);
  }
  return lists;
}

}  // namespace millrace::tests
