#include "runtime/profile/lateness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/median.hpp"
#include "runtime/profile/prediction.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t max_single_actions = 50;  // those that exceed their median most are simulated

const char* word(ActionKind kind) { return to_string(span_of(kind)); }

class Search {
 public:
  Search(const Measured& measured, std::span<const ProfiledStep> steps)
      : measured_(measured), schedule_(measured.schedule), steps_(steps), count_(static_cast<double>(steps.size())) {
    std::vector<StepView> views;
    for (const ProfiledStep& step : steps) {
      views.push_back(step.view);
      duration_ += milliseconds(step.view.duration()) / count_;
    }
    costs_ = mean_costs(schedule_, views, measured.exchanging);
    makespan_ = makespan(costs_);
  }

  std::vector<Lateness> find(std::size_t max_count) {
    slow_stages();
    single_actions();
    late_boundaries();
    waits_of_ranks();
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.cost > b.cost; });
    found_.resize(std::min(found_.size(), max_count));
    return std::move(found_);
  }

 private:
  [[nodiscard]] double makespan(const Costs& costs) const { return simulate(schedule_, costs, false).makespan; }

  void add(double cost, std::string what, RankId rank, StageId stage = no_stage) {
    if (cost > 0.001 * duration_) found_.push_back({cost, std::move(what), rank, stage});
  }

  [[nodiscard]] bool is_divided(std::size_t stage) const { return !measured_.divided.empty() && measured_.divided[stage]; }

  /// The mean time of the other stages, each scaled to this stage's number of layers. Stages without layers are compared only with
  /// each other, without scaling. Stages with a part of a layer are not compared: their own time.
  [[nodiscard]] double mean_of_others(std::size_t stage, ActionKind kind) const {
    const int own = measured_.layers.empty() ? 0 : measured_.layers[stage];
    double sum = 0;
    int others = 0;
    for (std::size_t other = 0; other < costs_.stages.size(); ++other) {
      if (other == stage || is_divided(other)) continue;
      const int layers = measured_.layers.empty() ? 0 : measured_.layers[other];
      if ((layers == 0) != (own == 0)) continue;
      sum += costs_.stages[other].of(kind) * (own == 0 ? 1 : static_cast<double>(own) / layers);
      ++others;
    }
    return others == 0 || is_divided(stage) ? costs_.stages[stage].of(kind) : sum / others;
  }

  void slow_stages() {
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage) {
      for (const ActionKind kind : all_action_kinds) {
        const double own = costs_.stages[stage].of(kind), others = mean_of_others(stage, kind);
        if (own <= others) continue;
        Costs without = costs_;
        without.stages[stage].of(kind) = others;
        add(makespan_ - makespan(without),
            fmt::format("stage {} {} takes {:.2f} ms, {:.2f} more than the mean of the others", stage, word(kind), own, own - others),
            schedule_.placement.rank_of(StageId(stage)), StageId(stage));
      }
    }
  }

  struct Single {
    double excess = 0, duration = 0, median = 0;
    RankId rank;
    int index = 0;
    StepId step;
  };

  void single_actions() {
    std::map<std::pair<StageId, ActionKind>, std::vector<double>> durations;
    for_each_action([&](const ProfiledStep&, RankId, int, const Action& action, double duration) {
      durations[{action.stage, action.kind}].push_back(duration);
    });
    std::map<std::pair<StageId, ActionKind>, double> medians;
    for (const auto& [key, values] : durations) medians[key] = median(values);
    std::vector<Single> singles;
    for_each_action([&](const ProfiledStep& step, RankId rank, int index, const Action& action, double duration) {
      const double usual = medians.at({action.stage, action.kind});
      if (duration > 1.5 * usual) singles.push_back({duration - usual, duration, usual, rank, index, step.view.step});
    });
    std::stable_sort(singles.begin(), singles.end(), [](const auto& a, const auto& b) { return a.excess > b.excess; });
    singles.resize(std::min(singles.size(), max_single_actions));
    for (const Single& single : singles) {
      const Action& action = schedule_.ranks[single.rank.index()][static_cast<std::size_t>(single.index)];
      Costs with = costs_;
      with.noise.stalls.push_back({single.rank, single.index, single.excess});
      add((makespan(with) - makespan_) / count_,
          fmt::format("{} of step {} took {:.2f} ms, {:.2f} more than stage {}'s median {}", action, single.step.value + 1, single.duration,
                      single.excess, action.stage, word(action.kind)),
          single.rank, action.stage);
    }
  }

  template <class Visit>
  void for_each_action(Visit visit) const {
    for (const ProfiledStep& step : steps_) {
      for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        for (std::size_t index = 0; index < schedule_.ranks[rank].size(); ++index)
          visit(step, RankId(rank), static_cast<int>(index), schedule_.ranks[rank][index],
                computing(step.view.ranks[rank].segments[index]));
      }
    }
  }

  /// Per edge: the transfers of those boundaries that a rank waited for.
  void late_boundaries() {
    const ActionTable table(schedule_);
    const auto edges = edges_of(schedule_.placement);
    std::vector<std::vector<double>> ways(edges.size());
    for (const ProfiledStep& step : steps_) {
      for (const auto& rank : step.view.ranks) {
        for (const TraceRecord& wait : rank.waits) {
          const auto boundary = waited_boundary(schedule_, table, step.view, wait);
          if (!boundary) continue;
          const auto kind = wait.reason == WaitReason::gradient ? BoundaryKind::gradient : BoundaryKind::activation;
          const auto edge = edge_into(schedule_.placement, wait.stage, kind);
          if (edge && wait.end > boundary->produced) ways[edge->index()].push_back(milliseconds(wait.end - boundary->produced));
        }
      }
    }
    for (const Edge& edge : edges) {
      const auto& way = ways[edge.id.index()];
      if (way.empty() || edge.local()) continue;
      const double usual = median(way);
      Costs with = costs_;
      with.links = uniform_links(schedule_.placement, 0);
      with.links[edge.id.index()].latency = usual;
      add(makespan(with) - makespan_,
          fmt::format("a boundary ({}) that a rank waits for takes {:.3f} ms from stage {} on rank {} to rank {}, {} times in {} steps",
                      to_string(edge.kind), usual, edge.producer, edge.producer_rank, edge.consumer_rank, way.size(), steps_.size()),
          edge.consumer_rank, edge.consumer);
    }
  }

  void waits_of_ranks() {
    const std::size_t ranks = schedule_.ranks.size();
    std::vector<Attribution> sums(ranks);
    for (const ProfiledStep& step : steps_) {
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t cause = 0; cause < cause_count; ++cause) sums[rank].parts[cause] += step.ranks[rank].parts[cause];
    }
    double optimizers = 0;
    for (const auto& sum : sums) optimizers += milliseconds(sum[Cause::optimizer]) / count_;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto a_step = [&](Cause cause) { return milliseconds(sums[rank][cause]) / count_; };
      const auto report = [&](Cause cause, const char* text) {
        add(a_step(cause), fmt::format("rank {} {} for {:.2f} ms per step", rank, text, a_step(cause)), RankId(rank));
      };
      report(Cause::data, "waits for the loader");
      report(Cause::transport, "waits for a free slot of its output ring");
      report(Cause::checkpoint, "copies its state for a checkpoint");
      if (ranks < 2) continue;
      const double own = a_step(Cause::optimizer), others = (optimizers - own) / static_cast<double>(ranks - 1);
      add(own - others, fmt::format("rank {} updates for {:.2f} ms, {:.2f} more than the mean of the others", rank, own, own - others),
          RankId(rank));
    }
  }

  const Measured& measured_;
  const Schedule& schedule_;
  std::span<const ProfiledStep> steps_;
  double count_, duration_ = 0, makespan_ = 0;
  Costs costs_;
  std::vector<Lateness> found_;
};

}  // namespace

std::vector<Lateness> lateness_of(const Measured& measured, std::span<const ProfiledStep> steps, std::size_t max_count) {
  return Search(measured, steps).find(max_count);
}

}  // namespace millrace::runtime
