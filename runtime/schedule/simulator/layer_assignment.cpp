#include "runtime/schedule/simulator/layer_assignment.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {
namespace {

using Counts = std::vector<int>;

void add(StageCost& sum, const StageCost& part) {
  sum.forward += part.forward;
  sum.input_gradient += part.input_gradient;
  sum.weight_gradient += part.weight_gradient;
  sum.backward += part.backward;
  sum.update += part.update;
}

double time_of(const StageCost& cost) { return cost.forward + cost.backward; }

/// Moves one layer from stage `from` to stage `to`; the layers of the stages between them shift by one.
struct Move {
  std::size_t from = 0, to = 0;
};

class Search {
 public:
  Search(const Schedule& schedule, const LayerCosts& costs, const LayerAssignmentOptions& options)
      : schedule_(schedule), costs_(costs), options_(options), priced_(options.fixed) {
    for (const auto& list : schedule.ranks) actions_ += static_cast<double>(list.size());
  }

  LayerAssignment run() {
    const int stages = schedule_.placement.model_stages();
    LayerAssignment best = score(even(stages));
    for (const Counts& start : starts(stages)) improve(score(start), best);
    return best;
  }

 private:
  Counts even(int stages) const {
    const int layers = static_cast<int>(costs_.layers.size());
    Counts counts(static_cast<std::size_t>(stages), layers / stages);
    for (int stage = 0; stage < layers % stages; ++stage) ++counts[static_cast<std::size_t>(stage)];
    return counts;
  }

  /// The starting points: the even distribution, the seed, and the seed with one layer moved between neighbours.
  std::vector<Counts> starts(int stages) const {
    std::vector<Counts> all{even(stages), minimax_layer_counts(stages, costs_)};
    const Counts seed = all.back();
    for (std::size_t stage = 0; stage + 1 < seed.size(); ++stage) {
      for (const auto& [from, to] : {std::pair(stage, stage + 1), std::pair(stage + 1, stage)}) {
        if (seed[from] == 0) continue;
        all.push_back(seed);
        --all.back()[from];
        ++all.back()[to];
      }
    }
    return all;
  }

  static bool better(const LayerAssignment& a, const LayerAssignment& b) {
    if (a.excess != b.excess) return a.excess < b.excess;
    return a.makespan < b.makespan * (1 - 1e-12);
  }

  [[nodiscard]] bool spent() const { return spent_ > options_.effort; }

  double excess_of(const Counts& counts) {
    if (!options_.excess) return 0;
    const auto [place, fresh] = excess_.try_emplace(counts, 0);
    if (fresh) {
      place->second = options_.excess(counts);
      spent_ += options_.excess_effort;
    }
    return place->second;
  }

  LayerAssignment score(const Counts& counts) {
    priced_.stages = stage_costs(schedule_.placement, costs_, counts);
    spent_ += actions_;
    return {counts, simulate(schedule_, priced_, false).makespan, excess_of(counts)};
  }

  /// The work of the busiest rank, a lower bound of the makespan as long as no pair takes less time than its halves.
  double min_makespan(const std::vector<StageCost>& stages) const {
    if (!priced_.pairs.empty()) return 0;
    double busiest = 0;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      double work = 0;
      for (const auto stage : schedule_.placement.stages_of(RankId(static_cast<int>(rank)))) {
        const auto& cost = stages[stage.index()];
        work += schedule_.microbatches_of(stage) * (cost.forward + std::min(cost.backward, cost.input_gradient + cost.weight_gradient));
      }
      busiest = std::max(busiest, work);
    }
    return busiest;
  }

  /// Accepts the layout if it is better. The limit is checked last, because it may be slow.
  bool accept(const Counts& counts, LayerAssignment& current) {
    priced_.stages = stage_costs(schedule_.placement, costs_, counts);
    spent_ += 1;
    const bool within = current.excess == 0;
    if (within && min_makespan(priced_.stages) >= current.makespan && priced_.noise.slowdown.empty()) return false;
    spent_ += actions_;
    LayerAssignment next{counts, simulate(schedule_, priced_, false).makespan, 0};
    if (within && !better(next, current)) return false;
    next.excess = excess_of(counts);
    if (!better(next, current)) return false;
    current = std::move(next);
    return true;
  }

  static bool apply(const Move& move, Counts& counts) {
    if (move.from == move.to || counts[move.from] == 0) return false;
    --counts[move.from];
    ++counts[move.to];
    return true;
  }

  static std::vector<Move> moves(std::size_t stages) {
    std::vector<Move> all;
    for (std::size_t from = 0; from < stages; ++from)
      for (std::size_t to = 0; to < stages; ++to)
        if (from != to) all.push_back({from, to});
    // Near moves first: they are the most likely to help, and on a long pipeline the budget runs out before the far ones are
    // tried.
    std::stable_sort(all.begin(), all.end(), [](const Move& a, const Move& b) {
      const auto length = [](const Move& move) { return move.from < move.to ? move.to - move.from : move.from - move.to; };
      return length(a) < length(b);
    });
    return all;
  }

  bool one_move(const std::vector<Move>& all, LayerAssignment& current) {
    for (const Move& move : all) {
      if (spent()) return false;
      Counts counts = current.counts;
      if (apply(move, counts) && accept(counts, current)) return true;
    }
    return false;
  }

  bool two_moves(const std::vector<Move>& all, LayerAssignment& current) {
    for (const Move& first : all) {
      Counts once = current.counts;
      if (!apply(first, once)) continue;
      for (const Move& second : all) {
        if (spent()) return false;
        Counts counts = once;
        if (apply(second, counts) && accept(counts, current)) return true;
      }
    }
    return false;
  }

  void improve(LayerAssignment current, LayerAssignment& best) {
    const auto all = moves(current.counts.size());
    while (one_move(all, current) || (current.excess == 0 && two_moves(all, current))) continue;
    if (better(current, best)) best = std::move(current);
  }

  const Schedule& schedule_;
  const LayerCosts& costs_;
  const LayerAssignmentOptions& options_;
  Costs priced_;
  double actions_ = 0, spent_ = 0;
  std::map<Counts, double> excess_;
};

}  // namespace

std::vector<StageCost> stage_costs(const Placement& placement, const LayerCosts& costs, const std::vector<int>& counts) {
  const auto model_stages = static_cast<std::size_t>(placement.model_stages());
  const auto layers = std::accumulate(counts.begin(), counts.end(), 0);
  MILLRACE_CHECK(counts.size() == model_stages && layers == static_cast<int>(costs.layers.size()), ExitCode::internal, "runtime.partition",
                 "{} stages of {} layers together, expected {} of {}", counts.size(), layers, model_stages, costs.layers.size());
  std::vector<StageCost> stages(static_cast<std::size_t>(placement.stages()), StageCost{0, 0, 0, 0});
  for (std::size_t replica = 0; replica < stages.size(); replica += model_stages) {
    std::size_t layer = 0;
    add(stages[replica], costs.embedding);
    for (std::size_t stage = 0; stage < model_stages; ++stage)
      for (int index = 0; index < counts[stage]; ++index) add(stages[replica + stage], costs.layers[layer++]);
    add(stages[replica + model_stages - 1], costs.head);
  }
  return stages;
}

std::vector<int> minimax_layer_counts(int stages, const LayerCosts& costs) {
  const std::size_t layers = costs.layers.size();
  const auto last = static_cast<std::size_t>(stages);
  std::vector<double> before(layers + 1, 0);  // summed time of the preceding layers
  for (std::size_t layer = 0; layer < layers; ++layer) before[layer + 1] = before[layer] + time_of(costs.layers[layer]);
  // max_time[k][j]: time of the largest of the first k stages with the first j layers. cut[k][j]: where the last of them begins.
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> max_time(last + 1, std::vector<double>(layers + 1, never));
  std::vector<std::vector<std::size_t>> cut(last + 1, std::vector<std::size_t>(layers + 1, 0));
  max_time[0][0] = 0;
  for (std::size_t stage = 1; stage <= last; ++stage) {
    const double ends = (stage == 1 ? time_of(costs.embedding) : 0) + (stage == last ? time_of(costs.head) : 0);
    for (std::size_t end = 0; end <= layers; ++end) {
      for (std::size_t begin = 0; begin <= end; ++begin) {
        const double found = std::max(max_time[stage - 1][begin], before[end] - before[begin] + ends);
        if (found >= max_time[stage][end]) continue;
        max_time[stage][end] = found;
        cut[stage][end] = begin;
      }
    }
  }
  std::vector<int> counts(last);
  for (std::size_t stage = last, end = layers; stage > 0; --stage) {
    counts[stage - 1] = static_cast<int>(end - cut[stage][end]);
    end = cut[stage][end];
  }
  return counts;
}

LayerAssignment assign_layers(const Schedule& schedule, const LayerCosts& costs, const LayerAssignmentOptions& options) {
  return Search(schedule, costs, options).run();
}

}  // namespace millrace::runtime
