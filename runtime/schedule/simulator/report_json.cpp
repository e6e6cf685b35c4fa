#include <nlohmann/json.hpp>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/hash.hpp"
#include "runtime/schedule/simulator/critical_path.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/path_summary.hpp"
#include "runtime/schedule/simulator/report.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json ranks_json(const Simulation& simulation, const StepMeasures& step) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const RankTime& time = simulation.ranks[rank];
    list.push_back({{"rank", rank},
                    {"busy", time.busy},
                    {"idle", step.idle[rank]},
                    {"activation", time.activation},
                    {"gradient", time.gradient},
                    {"link", time.link},
                    {"slot", time.slot},
                    {"exchange", time.exchange},
                    {"weights", time.weights},
                    {"launch", time.launch},
                    {"drain", time.drain}});
  }
  return list;
}

Json lost_json(const LostTime& lost) {
  return {{"work", lost.work},         {"bubble", lost.bubble},   {"imbalance", lost.imbalance},
          {"exchange", lost.exchange}, {"latency", lost.latency}, {"bandwidth", lost.bandwidth},
          {"slots", lost.slots},       {"launch", lost.launch},   {"slow_ranks", lost.slow_ranks},
          {"jitter", lost.jitter},     {"stalls", lost.stalls}};
}

Json kinds_json(const StageCost& cost) {
  return {{"F", cost.forward}, {"I", cost.input_gradient}, {"W", cost.weight_gradient}, {"B", cost.backward}};
}

Json path_json(const PathSummary& path) {
  const auto of = [&](ActionKind kind) { return path.kinds[static_cast<std::size_t>(kind)]; };
  return {{"actions", path.actions},
          {"kinds", kinds_json({of(ActionKind::forward), of(ActionKind::input_gradient), of(ActionKind::weight_gradient),
                                of(ActionKind::backward)})},
          {"transfers", path.transfers},
          {"transfer", path.transfer},
          {"launch", path.launch},
          {"ranks", path.ranks}};
}

Json sensitivity_json(const Schedule& schedule, const Sensitivity& gain) {
  Json stages = Json::array(), links = Json::array();
  for (std::size_t stage = 0; stage < gain.stages.size(); ++stage) {
    Json entry{{"stage", stage}, {"rank", schedule.placement.rank_of(StageId{stage}).value}};
    entry.update(kinds_json(gain.stages[stage]));
    stages.push_back(entry);
  }
  for (const Edge& edge : edges_of(schedule.placement)) {
    if (gain.links[edge.id.index()].latency <= 0) continue;
    links.push_back({{"edge", edge.id.value},
                     {"kind", to_string(edge.kind)},
                     {"from_stage", edge.producer.value},
                     {"to_stage", edge.consumer.value},
                     {"latency", gain.links[edge.id.index()].latency}});
  }
  return {{"stages", stages}, {"links", links}, {"launch", gain.launch}};
}

}  // namespace

std::string to_json(const Schedule& schedule, const Costs& costs, const Simulation& simulation, const LostTime& lost) {
  const StepMeasures step = measure(schedule, simulation);
  const Json report{{"schedule", schedule.name},
                    {"placement", schedule.placement.name()},
                    {"ranks", schedule.ranks.size()},
                    {"chunks", schedule.placement.chunks()},
                    {"microbatches", schedule.microbatches},
                    {"hash", fmt::format("{:016x}", content_hash(schedule))},
                    {"makespan", step.makespan},
                    {"bubble", step.bubble},
                    {"bubble_time", step.bubble_time},
                    {"span", step.span},
                    {"span_bubble", step.span_bubble},
                    {"span_bubble_time", step.span_bubble_time},
                    {"peak", step.peak},
                    {"rank_times", ranks_json(simulation, step)},
                    {"lost_time", lost_json(lost)},
                    {"critical_path", path_json(path_summary(schedule, costs, simulation))},
                    {"sensitivity", sensitivity_json(schedule, sensitivity(schedule, costs, simulation))}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace millrace::runtime
