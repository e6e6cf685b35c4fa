#include "runtime/schedule/simulator/report.hpp"

#include <algorithm>

#include "kernels/base/count.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/simulator/critical_path.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/path_summary.hpp"

namespace millrace::runtime {
namespace {

// Six significant digits, without trailing zeros.
std::string plain(double value) { return fmt::format("{:.6g}", value); }

std::string depth_of(const Schedule& schedule, const Ledger& ledger, StageId stage, BoundaryKind kind) {
  const auto edge = edge_into(schedule.placement, stage, kind);
  return edge ? fmt::format("{}", ledger.depths[edge->index()]) : "-";
}

struct Influence {
  std::string input;
  double gain = 0;
};

std::vector<Influence> influences(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  const Sensitivity result = sensitivity(schedule, costs, simulation);
  std::vector<Influence> list;
  for (std::size_t stage = 0; stage < result.stages.size(); ++stage)
    for (const ActionKind kind : all_action_kinds)
      list.push_back({fmt::format("{} of stage {} (rank {})", letter_of(kind), stage, schedule.placement.rank_of(StageId{stage})),
                      result.stages[stage].of(kind)});
  for (const Edge& edge : edges_of(schedule.placement))
    list.push_back({fmt::format("latency of the {} from rank {} to {}", to_string(edge.kind), edge.producer_rank, edge.consumer_rank),
                    result.links[edge.id.index()].latency});
  list.push_back({"launch of an entry", result.launch});
  std::erase_if(list, [](const Influence& influence) { return influence.gain <= 0; });
  std::stable_sort(list.begin(), list.end(), [](const Influence& a, const Influence& b) { return a.gain > b.gain; });
  return list;
}

}  // namespace

std::string print_measures(const Schedule& schedule, const Simulation& simulation) {
  const StepMeasures step = measure(schedule, simulation);
  std::string text =
      fmt::format("makespan  {:>10}   bubble {:>10} = {:>5.1f} %   all ranks, first begin to last end: a barrier ends the step\n",
                  plain(step.makespan), plain(step.bubble_time), 100 * step.bubble);
  text += fmt::format("span      {:>10}   bubble {:>10} = {:>5.1f} %   the idlest rank, its own first begin to its own last end\n",
                      plain(step.span), plain(step.span_bubble_time), 100 * step.span_bubble);
  return text + fmt::format("peak      {:>10}   microbatches held by a rank, from F to the end of W or B\n", plain(step.worst_peak()));
}

std::string print_ranks(const Schedule& schedule, const Simulation& simulation) {
  const StepMeasures step = measure(schedule, simulation);
  std::string text = fmt::format("{:>5} {:>10} {:>8} {:>8}  {}\n", "rank", "busy", "idle", "peak", "stages");
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    text += fmt::format("{:>5} {:>10} {:>6.1f} % {:>8}  {}\n", rank, plain(simulation.ranks[rank].busy), 100 * step.idle[rank],
                        plain(step.peak[rank]), fmt::join(schedule.placement.stages_of(RankId{rank}), ","));
  }
  return text;
}

std::string print_waits(const Schedule& schedule, const Simulation& simulation) {
  const StepMeasures step = measure(schedule, simulation);
  const bool exchanges = std::ranges::any_of(simulation.ranks, [](const RankTime& time) { return time.exchange > 0; });
  const bool gathers = std::ranges::any_of(simulation.ranks, [](const RankTime& time) { return time.weights > 0; });
  const auto exchange = [&](const std::string& cell) { return exchanges ? fmt::format(" {:>9}", cell) : std::string(); };
  const auto weights = [&](const std::string& cell) { return gathers ? fmt::format(" {:>9}", cell) : std::string(); };
  std::string text = fmt::format("{:>5} {:>10} {:>11} {:>10} {:>9} {:>9}{}{} {:>9} {:>9} {:>8} {:>8}\n", "rank", "busy", "activation",
                                 "gradient", "link", "slot", exchange("exchange"), weights("weights"), "launch", "drain", "idle", "peak");
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const RankTime& time = simulation.ranks[rank];
    text += fmt::format("{:>5} {:>10} {:>11} {:>10} {:>9} {:>9}{}{} {:>9} {:>9} {:>6.1f} % {:>8}\n", rank, plain(time.busy),
                        plain(time.activation), plain(time.gradient), plain(time.link), plain(time.slot), exchange(plain(time.exchange)),
                        weights(plain(time.weights)), plain(time.launch), plain(time.drain), 100 * step.idle[rank], plain(step.peak[rank]));
  }
  return text;
}

std::string print_slots(const Schedule& schedule, const Ledger& ledger) {
  std::string text = fmt::format("{:>5} {:>5} {:>12} {:>8} {:>8}   {:>16} {:>14}\n", "stage", "rank", "slots F to I", "F to W", "I to W",
                                 "ring, activation", "ring, gradient");
  for (std::size_t index = 0; index < ledger.stages.size(); ++index) {
    const StashSlots& slots = ledger.stages[index];
    const StageId stage{index};
    text += fmt::format("{:>5} {:>5} {:>12} {:>8} {:>8}   {:>16} {:>14}\n", index, schedule.placement.rank_of(stage), slots.stash_input,
                        slots.stash_weight, slots.handoff, depth_of(schedule, ledger, stage, BoundaryKind::activation),
                        depth_of(schedule, ledger, stage, BoundaryKind::gradient));
  }
  return text;
}

std::string print_critical_path(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  const PathSummary path = path_summary(schedule, costs, simulation);
  std::string text = fmt::format("critical path: {}", counted(path.actions, "action"));
  for (const ActionKind kind : all_action_kinds)
    if (path.kinds[static_cast<std::size_t>(kind)] > 0)
      text += fmt::format(", {} {}", letter_of(kind), plain(path.kinds[static_cast<std::size_t>(kind)]));
  if (path.transfers > 0) text += fmt::format(", {} transfers {}", path.transfers, plain(path.transfer));
  if (path.launch > 0) text += fmt::format(", launches {}", plain(path.launch));
  const auto busiest = std::max_element(path.ranks.begin(), path.ranks.end());
  if (busiest != path.ranks.end()) text += fmt::format("; most on rank {}: {}", busiest - path.ranks.begin(), plain(*busiest));
  text += "\nincrease of the makespan per unit:\n";
  const auto list = influences(schedule, costs, simulation);
  for (std::size_t i = 0; i < std::min<std::size_t>(list.size(), 5); ++i)
    text += fmt::format("  {:>8}  {}\n", plain(list[i].gain), list[i].input);
  return text;
}

}  // namespace millrace::runtime
