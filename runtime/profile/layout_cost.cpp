#include "runtime/profile/layout_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "runtime/profile/profile.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/simulator/layer_assignment.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "runtime/split.hpp"

namespace millrace::runtime {
namespace {

constexpr double least_cost = 0.01;    // of a step, below which nothing is said
constexpr double least_excess = 0.03;  // of the mean, above which a rank is heavy
constexpr double least_gain = 0.01;    // of the simulated list, from which another layout is worth naming
constexpr double search_effort = 1e6;  // simulated actions: some tenths of a second

std::vector<LayoutCost::HeavyRank> heavy_ranks(const Schedule& schedule, const Simulation& simulation) {
  double mean = 0;
  for (const auto& rank : simulation.ranks) mean += rank.busy / static_cast<double>(simulation.ranks.size());
  std::vector<LayoutCost::HeavyRank> heavy;
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const double busy = simulation.ranks[rank].busy;
    if (mean > 0 && busy > (1 + least_excess) * mean)
      heavy.push_back({RankId(rank), schedule.placement.stages_of(RankId(rank)), busy, busy / mean});
  }
  std::ranges::stable_sort(heavy, std::greater{}, &LayoutCost::HeavyRank::time);
  return heavy;
}

/// The times of a model's parts, in milliseconds of a microbatch.
class PartTimes {
 public:
  explicit PartTimes(const Profile& profile)
      : measured_(profile.measured), costs_(profile.prediction.costs), stages_(measured_.schedule.placement.model_stages()) {
    counts_.assign(measured_.layers.begin(), measured_.layers.begin() + stages_);
    parts_.layers.assign(static_cast<std::size_t>(std::accumulate(counts_.begin(), counts_.end(), 0)), {0, 0, 0, 0});
  }

  /// From the operations of each layer, scaled so that those of a stage add up to its actions. Nothing if the operations were not
  /// measured, if ranks exchange rows within actions, or if the layout divides layers.
  std::optional<LayerCosts> measured() {
    const bool divided = std::ranges::find(measured_.divided, true) != measured_.divided.end();
    if (measured_.operations.empty() || divided || !measured_.exchanging.shapes.empty() || parts_.layers.empty()) return std::nullopt;
    sum_operations();
    for (const auto& operation : measured_.operations)
      if (!add(operation)) return std::nullopt;
    const bool complete = std::ranges::all_of(parts_.layers, [](const StageCost& layer) { return layer.forward > 0; });
    return complete ? std::optional(parts_) : std::nullopt;
  }
  [[nodiscard]] const std::vector<int>& counts() const { return counts_; }

 private:
  [[nodiscard]] static std::optional<ActionKind> kind_of(char pass) {
    for (const ActionKind kind : all_action_kinds)
      if (letter_of(kind) == pass) return kind;
    return std::nullopt;
  }
  [[nodiscard]] static double mean_of(const OperationTime& operation) {
    return operation.count == 0 ? 0 : milliseconds(operation.nanoseconds) / static_cast<double>(operation.count);
  }

  void sum_operations() {
    sums_.assign(costs_.stages.size(), {0, 0, 0, 0});
    for (const auto& operation : measured_.operations)
      if (const auto kind = kind_of(operation.pass)) sums_[operation.stage.index()].of(*kind) += mean_of(operation);
  }

  /// Returns false if the operation's layer is not one of the stage's.
  bool add(const OperationTime& operation) {
    const auto kind = kind_of(operation.pass);
    if (!kind) return true;
    const auto stage = operation.stage.index();
    const auto of_model = static_cast<int>(stage) % stages_;
    const double sum = sums_[stage].of(*kind), replicas = static_cast<double>(costs_.stages.size()) / stages_;
    const double time = sum > 0 ? mean_of(operation) * costs_.stages[stage].of(*kind) / sum / replicas : 0;
    if (operation.layer < 0) {
      if (of_model == 0 || of_model + 1 == stages_) (of_model == 0 ? parts_.embedding : parts_.head).of(*kind) += time;
      return true;
    }
    const auto first = std::accumulate(counts_.begin(), counts_.begin() + of_model, 0);
    const int count = counts_[static_cast<std::size_t>(of_model)];
    if (operation.layer < first || operation.layer >= first + count) return false;
    parts_.layers[static_cast<std::size_t>(operation.layer)].of(*kind) += time;
    return true;
  }

  const Measured& measured_;
  const Costs& costs_;
  int stages_;
  std::vector<int> counts_;      // layers of each stage of the model
  std::vector<StageCost> sums_;  // by stage, of its operations
  LayerCosts parts_;
};

std::string layout_text_of(const std::vector<int>& counts, int modules) {
  const int layers = std::accumulate(counts.begin(), counts.end(), 0) - modules;
  std::string text;
  int at = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    std::vector<std::string> words;
    const auto several = [&](char letter, int count) {
      if (count > 0) words.push_back(count == 1 ? std::string(1, letter) : fmt::format("{}*{}", letter, count));
    };
    if (stage == 0) words.emplace_back("E");
    const int of_layers = std::clamp(layers - at, 0, counts[stage]);
    several('t', of_layers);
    several('M', counts[stage] - of_layers);
    if (stage + 1 == counts.size()) words.emplace_back("H");
    text += fmt::format("{}{}{}", stage == 0 ? "" : " |", words.empty() ? "" : stage == 0 ? "" : " ", fmt::join(words, " "));
    at += counts[stage];
  }
  return text;
}

void search(const Profile& profile, LayoutCost& layout) {
  PartTimes times(profile);
  const auto parts = times.measured();
  if (!parts) return;
  layout.searched = true;
  const Schedule lists = one_copy(profile.measured.schedule);
  Costs now;
  now.stages = stage_costs(lists.placement, *parts, times.counts());
  const double own = simulate(lists, now, false).makespan;
  LayerAssignmentOptions options;
  options.effort = search_effort;
  const auto best = assign_layers(lists, *parts, options);
  if (best.makespan < (1 - least_gain) * own)
    layout.better = LayoutCost::Better{layout_text_of(best.counts, profile.measured.modules), own, best.makespan};
}

/// "stage 0 (E t*2)"; without the layers if the layout is not known.
std::string stages_text(const Measured& measured, const std::vector<StageId>& stages) {
  const auto pieces = split(measured.run.layout, '|');
  const auto of_model = static_cast<std::size_t>(measured.schedule.placement.model_stages());
  std::vector<std::string> words;
  for (const StageId stage : stages) {
    words.push_back(fmt::format("{}", stage));
    if (pieces.size() != of_model) continue;
    std::string_view piece = pieces[stage.index() % of_model];
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    if (!piece.empty()) words.back() += fmt::format(" ({})", piece);
  }
  return fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages", fmt::join(words, ", "));
}

}  // namespace

std::optional<LayoutCost> layout_cost_of(const Profile& profile) {
  const Measured& measured = profile.measured;
  const Costs& costs = profile.prediction.costs;
  if (measured.run.kind != "training" || measured.schedule.ranks.size() < 2) return std::nullopt;
  LayoutCost layout;
  layout.cost = profile.prediction.simulation.makespan - simulate(measured.schedule, alike(costs), false).makespan;
  layout.heavy = heavy_ranks(measured.schedule, profile.prediction.simulation);
  if (layout.heavy.empty() || layout.cost < least_cost * profile.prediction.measured_duration) return std::nullopt;
  search(profile, layout);
  return layout;
}

std::vector<std::string> layout_cost_text(const Profile& profile) {
  if (!profile.layout) return {};
  const auto& layout = *profile.layout;
  const auto& measured = profile.measured;
  constexpr std::size_t most_named = 4;
  std::vector<std::string> heavy;
  for (std::size_t index = 0; index < std::min(most_named, layout.heavy.size()); ++index) {
    const auto& rank = layout.heavy[index];
    heavy.push_back(fmt::format("{} on rank {} takes {:.2f} x the mean", stages_text(measured, rank.stages), rank.rank, rank.relative));
  }
  if (layout.heavy.size() > most_named)
    heavy.push_back(fmt::format("{} further ranks take more than it", layout.heavy.size() - most_named));
  std::vector<std::string> lines{fmt::format("unequal stages cost {:.1f} ms, {:.1f}% of the step: {}", layout.cost,
                                             100 * layout.cost / profile.prediction.measured_duration, fmt::join(heavy, "; "))};
  if (!measured.doubt.empty()) {
    lines.push_back(
        fmt::format("these times are in doubt: {}. Another run may name other stages: profile on a quiet machine before you change "
                    "the layout",
                    measured.doubt));
    return lines;
  }
  if (layout.better) {
    lines.push_back(fmt::format("with the measured times of its parts, {} would be {:.3f} x as fast in {}: {:.1f} ms instead of {:.1f} ms",
                                layout.better->layout, layout.better->now / layout.better->step, measured.schedule.name,
                                layout.better->step, layout.better->now));
  } else if (layout.searched) {
    lines.push_back(fmt::format("with the measured times of its parts, no other layout of whole layers is noticeably faster in {}",
                                measured.schedule.name));
  }
  lines.push_back(
      fmt::format("`millrace plan RUN.toml --measure` searches {}other schedules too, with their memory, and writes the plan with --out",
                  layout.searched ? "" : "layouts and "));
  return lines;
}

}  // namespace millrace::runtime
