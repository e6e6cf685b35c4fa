#include "tools/commands/rehearsal_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/hash.hpp"
#include "runtime/schedule/simulator/measures.hpp"

namespace millrace::tools {
namespace {

constexpr std::size_t max_delays = 5;

struct StatedCause {
  const char* name;
  double runtime::RankTime::*time;
};
constexpr std::array<StatedCause, 8> causes{{{"busy", &runtime::RankTime::busy},
                                             {"activation", &runtime::RankTime::activation},
                                             {"gradient", &runtime::RankTime::gradient},
                                             {"link", &runtime::RankTime::link},
                                             {"slot", &runtime::RankTime::slot},
                                             {"exchange", &runtime::RankTime::exchange},
                                             {"launch", &runtime::RankTime::launch},
                                             {"drain", &runtime::RankTime::drain}}};

/// The end of each action of a rehearsed step, by the boundary that it produced.
class Ends {
 public:
  Ends(const runtime::Schedule& schedule, const actors::RehearsedStep& step) : placement_(schedule.placement) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
        const auto& action = schedule.ranks[rank][index];
        if (action.kind != runtime::ActionKind::weight_gradient) ends_[key(action.stage, action)] = step.ranks[rank].end.at(index);
      }
  }
  /// When the boundary that the action takes from another stage had arrived; 0 if it takes none.
  [[nodiscard]] double boundary(const runtime::Action& action, const std::vector<runtime::LinkCost>& links) const {
    if (action.kind == runtime::ActionKind::weight_gradient) return 0;
    const bool gradient = runtime::makes_gradient(action.kind);
    const auto source = gradient ? placement_.next(action.stage) : placement_.previous(action.stage);
    if (!source) return 0;
    const auto kind = gradient ? runtime::BoundaryKind::gradient : runtime::BoundaryKind::activation;
    const auto edge = runtime::edge_into(placement_, action.stage, kind);
    const bool delayed = edge && !links.empty() && placement_.rank_of(*source) != placement_.rank_of(action.stage);
    const double latency = delayed ? links[edge->index()].latency : 0;
    return ends_.at(key(*source, action)) + latency;
  }

 private:
  using Key = std::tuple<runtime::StageId, bool, runtime::MicrobatchId>;
  static Key key(runtime::StageId stage, const runtime::Action& action) {
    return {stage, runtime::makes_gradient(action.kind), action.microbatch};
  }
  const runtime::Placement& placement_;
  std::map<Key, double> ends_;
};

std::vector<RehearsalComparison::Delay> delays_of(const runtime::Schedule& schedule, const runtime::Costs& costs,
                                                  const runtime::Simulation& simulation, const actors::RehearsedStep& step) {
  const Ends ends(schedule, step);
  std::vector<RehearsalComparison::Delay> delays;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& measured = step.ranks[rank];
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const std::size_t action = simulation.first[rank] + index;
      RehearsalComparison::Delay delay{runtime::RankId(rank), schedule.ranks[rank][index]};
      const double before = index > 0 ? measured.end[index - 1] : 0;
      delay.began = measured.begin[index] - std::max(before, ends.boundary(delay.action, costs.links));
      delay.lasted = measured.end[index] - measured.begin[index] - (simulation.end[action] - simulation.begin[action]);
      delays.push_back(delay);
    }
  }
  std::stable_sort(delays.begin(), delays.end(), [](const auto& a, const auto& b) { return a.added() > b.added(); });
  delays.resize(std::min(delays.size(), max_delays));
  return delays;
}

/// Simulates the step again with the measured duration of each action.
runtime::Simulation as_timed(const runtime::Schedule& schedule, const runtime::Costs& costs, const actors::RehearsedStep& step) {
  auto timed = costs;
  timed.noise = {};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const auto& action = schedule.ranks[rank][index];
      timed.noise.stalls.push_back({runtime::RankId(rank), static_cast<int>(index),
                                    step.ranks[rank].busy[index] - costs.stages[action.stage.index()].of(action.kind)});
    }
  return runtime::simulate(schedule, timed, false);
}

using Json = nlohmann::ordered_json;

Json json_of(const runtime::RankTime& time) {
  Json json;
  for (const auto& cause : causes) json[cause.name] = time.*cause.time;
  return json;
}

}  // namespace

RehearsalComparison compare(const runtime::Schedule& schedule, const runtime::Costs& costs, const runtime::Simulation& simulation,
                            const actors::RehearsedStep& step) {
  RehearsalComparison comparison;
  comparison.measured = step.duration;
  comparison.predicted = simulation.makespan;
  double busy = 0;
  for (const auto& rank : step.ranks) busy += rank.time.busy;
  comparison.measured_bubble = 1 - busy / (step.duration * static_cast<double>(step.ranks.size()));
  comparison.predicted_bubble = simulation.bubble();
  comparison.lost = runtime::lost_time(schedule, costs);
  const auto timed = as_timed(schedule, costs, step);
  comparison.as_timed = timed.makespan;
  comparison.bubble_as_timed = timed.bubble();
  comparison.delays = delays_of(schedule, costs, simulation, step);
  return comparison;
}

std::string print(const RehearsalComparison& comparison, const runtime::Simulation& simulation, const actors::RehearsedStep& step) {
  std::string text = fmt::format("{:<8} measured {:>10.2f} ms   predicted {:>10.2f} ms   ratio {:.4f}\n", "step", comparison.measured,
                                 comparison.predicted, comparison.ratio());
  text += fmt::format("{:<8} measured {:>10.2f} %    predicted {:>10.2f} %\n", "bubble", 100 * comparison.measured_bubble,
                      100 * comparison.predicted_bubble);
  text += fmt::format("{:<8} with the measured durations of the actions: predicted {:.2f} ms, ratio {:.4f}, bubble {:.2f} %\n\n", "timers",
                      comparison.as_timed, comparison.ratio_as_timed(), 100 * comparison.bubble_as_timed);
  text += fmt::format("where the predicted step's time goes, and what the runtime adds\n{}", runtime::to_string(comparison.lost, "ms"));
  text += fmt::format("late timers: {:+.2f} ms, this runtime: {:+.2f} ms\n\n", comparison.as_timed - comparison.predicted,
                      comparison.measured - comparison.as_timed);

  text += "what each rank does and waits for: measured (predicted), ms\nrank";
  for (const auto& cause : causes) text += fmt::format(" {:>19}", cause.name);
  text += '\n';
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    text += fmt::format("{:>4}", rank);
    for (const auto& cause : causes)
      text += fmt::format(" {:>19}", fmt::format("{:.2f} ({:.2f})", step.ranks[rank].time.*cause.time, simulation.ranks[rank].*cause.time));
    text += '\n';
  }

  text += "\nthe largest delays, ms: of the begin after the action could have begun, and of the duration beyond the timer's\n";
  for (const auto& delay : comparison.delays)
    text += fmt::format("  {:<8} on rank {:<3} began {:+.2f}, lasted {:+.2f}\n", to_string(delay.action), delay.rank.value, delay.began,
                        delay.lasted);
  return text;
}

std::string to_json(const RehearsalComparison& comparison, const runtime::Schedule& schedule, const runtime::Simulation& simulation,
                    const actors::Rehearsal& rehearsal, const actors::RehearsedStep& step) {
  Json json{{"schedule", schedule.name},
            {"ranks", schedule.ranks.size()},
            {"chunks", schedule.placement.chunks()},
            {"microbatches", schedule.microbatches},
            {"hash", fmt::format("{:016x}", runtime::content_hash(schedule))}};
  json["steps"] = Json::array();
  for (const auto& each : rehearsal.steps) json["steps"].push_back(each.duration);
  json["measured"] = comparison.measured;
  json["predicted"] = comparison.predicted;
  json["ratio"] = comparison.ratio();
  json["measured_bubble"] = comparison.measured_bubble;
  json["predicted_bubble"] = comparison.predicted_bubble;
  json["as_timed"] = comparison.as_timed;
  json["ratio_as_timed"] = comparison.ratio_as_timed();
  json["bubble_as_timed"] = comparison.bubble_as_timed;
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    json["actions"].push_back(step.ranks[rank].end.size());
    json["measured_times"].push_back(json_of(step.ranks[rank].time));
    json["predicted_times"].push_back(json_of(simulation.ranks[rank]));
  }
  const auto& lost = comparison.lost;
  json["lost_time"] = {{"work", lost.work},
                       {"bubble", lost.bubble},
                       {"imbalance", lost.imbalance},
                       {"exchange", lost.exchange},
                       {"latency", lost.latency},
                       {"slow_ranks", lost.slow_ranks},
                       {"jitter", lost.jitter},
                       {"stalls", lost.stalls},
                       {"timers", comparison.as_timed - comparison.predicted},
                       {"runtime", comparison.measured - comparison.as_timed}};
  json["delays"] = Json::array();
  for (const auto& delay : comparison.delays)
    json["delays"].push_back({{"action", to_string(delay.action)},
                              {"rank", delay.rank.value},
                              {"added", delay.added()},
                              {"began", delay.began},
                              {"lasted", delay.lasted}});
  return json.dump(2) + '\n';
}

}  // namespace millrace::tools
