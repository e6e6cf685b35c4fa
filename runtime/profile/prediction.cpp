#include "runtime/profile/prediction.hpp"

#include <algorithm>
#include <limits>

namespace millrace::runtime {
namespace {

/// Adds up what segments took, and finds the shortest time of each exchange.
class Segments {
 public:
  Segments(const Schedule& schedule, const Exchanging& exchanging) : schedule_(schedule), exchanging_(exchanging) {
    for (const StageShape& shape : exchanging.shapes) {
      StageExchanges& stage = stages_.emplace_back();
      stage.shape = shape;
      for (const ActionKind kind : all_action_kinds) {
        std::size_t posts = 0;
        for (const SegmentShape& segment : shape.of(kind)) posts += static_cast<std::size_t>(segment.posts);
        stage.of(kind) = {std::vector<double>(shape.of(kind).size()), std::vector<double>(posts, never)};
      }
    }
  }

  void add(const StepView& step) {
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < step.ranks[rank].segments.size(); ++index) {
        const Action& action = schedule_.ranks[rank][index];
        const auto& segments = step.ranks[rank].segments[index];
        StageExchanges& stage = stages_[action.stage.index()];
        if (segments.size() != stage.shape.of(action.kind).size()) continue;
        for (std::size_t segment = 0; segment < segments.size(); ++segment)
          stage.of(action.kind).compute[segment] += milliseconds(segments[segment].end - segments[segment].begin);
        add_exchanges(step, rank, index, stage);
      }
    }
  }

  /// With the segments as fractions of the whole.
  [[nodiscard]] std::vector<StageExchanges> result() && {
    for (StageExchanges& stage : stages_) {
      for (SegmentCosts& costs : stage.costs) {
        double whole = 0;
        for (const double part : costs.compute) whole += part;
        for (double& part : costs.compute) part = whole > 0 ? part / whole : 1 / static_cast<double>(costs.compute.size());
        for (double& time : costs.exchange) time = time == never ? 0 : time;
      }
    }
    return std::move(stages_);
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  void add_exchanges(const StepView& step, std::size_t rank, std::size_t index, StageExchanges& stage) const {
    const Action& action = schedule_.ranks[rank][index];
    const auto& shapes = stage.shape.of(action.kind);
    std::vector<std::int64_t> posted;  // by exchange: when the last member had posted it
    for (std::size_t segment = 0; segment < shapes.size(); ++segment) {
      const TraceRecord& record = step.ranks[rank].segments[index][segment];
      if (const int awaits = shapes[segment].awaits; awaits >= 0) {
        const auto exchange = static_cast<std::size_t>(awaits);
        double& least = stage.of(action.kind).exchange[exchange];
        least = std::min(least, std::max(0.0, milliseconds(record.begin - posted.at(exchange))));
      }
      std::int64_t last = record.end;
      for (const RankId member : exchanging_.members.at(rank)) {
        const auto& other = step.ranks[member.index()].segments[index];
        if (segment < other.size()) last = std::max(last, other[segment].end);
      }
      for (int post = 0; post < shapes[segment].posts; ++post) posted.push_back(last);
    }
  }

  const Schedule& schedule_;
  const Exchanging& exchanging_;
  std::vector<StageExchanges> stages_;
};

}  // namespace

Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps, const Exchanging& exchanging) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(schedule.placement.stages()), {0, 0, 0, 0});
  std::vector<StageCost> counts = costs.stages;
  for (const StepView& step : steps) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
        const Action& action = schedule.ranks[rank][index];
        costs.stages[action.stage.index()].of(action.kind) += computing(step.ranks[rank].segments[index]);
        counts[action.stage.index()].of(action.kind) += 1;
      }
    }
  }
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    for (const ActionKind kind : all_action_kinds) {
      if (counts[stage].of(kind) > 0) costs.stages[stage].of(kind) /= counts[stage].of(kind);
    }
  }
  if (exchanging.shapes.empty()) return costs;
  Segments segments(schedule, exchanging);
  for (const StepView& step : steps) segments.add(step);
  costs.exchanges = std::move(segments).result();
  costs.members = exchanging.members;
  return costs;
}

}  // namespace millrace::runtime
