#include "actors/debug/session_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "actors/debug/component.hpp"
#include "kernels/base/check.hpp"
#include "runtime/engine/stage.hpp"

namespace millrace::actors {
namespace {

constexpr int context_actions = 5;  // number of actions shown before and after

/// "3F2", or "3F2.1" for one of several segments.
std::string entry_text(const runtime::PlannedEntry& entry) {
  return entry.segments == 1 ? runtime::to_string(entry.action) : fmt::format("{}.{}", entry.action, entry.segment);
}

std::string rank_line(const actors::Stepper& stepper, const DebugCursor& standing, runtime::RankId rank) {
  const auto& engine = stepper.control(rank).engine();
  const auto* list = stepper.control(rank).list();
  if (list == nullptr) return fmt::format("rank {:<3} no list yet\n", rank.value);
  const int size = static_cast<int>(list->entries.size()), done = engine.running() ? engine.finished() : size;
  const bool runs = standing.inside && standing.rank == rank, ready = stepper.next(rank) != nullptr;
  std::string actions = done > context_actions ? "… " : "";
  for (int index = std::max(0, done - context_actions); index < std::min(size, done + context_actions + 1); ++index) {
    const auto text = entry_text(list->entries[static_cast<std::size_t>(index)]);
    actions += index != done ? text + " "
               : runs        ? fmt::format(">{}< ", text)
               : ready       ? fmt::format("[{}] ", text)
                             : fmt::format("({}) ", text);
  }
  if (done + context_actions + 1 < size) actions += "…";
  std::string state = "done with the step's list";
  if (runs) {
    state = "runs";
  } else if (ready) {
    state = "ready";
  } else if (done < size) {
    state = runtime::describe(engine.wait());
  }
  return fmt::format("rank {:<3} {:>4}/{:<4} {:<{}} {}\n", rank.value, done, size, actions, 6 * (2 * context_actions + 1) + 8, state);
}

/// The action that `ops` shows: the one that is running, has just run, or is the rank's next. nullptr if the rank has none.
const actors::Execute* current_action(const actors::Stepper& stepper, const DebugCursor& standing) {
  return (standing.inside || standing.behind) && standing.action ? &*standing.action : stepper.next(standing.rank);
}

/// Why the selected rank has no action that it can run.
std::string idle_text(const actors::Stepper& stepper, const DebugCursor& standing) {
  const auto& engine = stepper.control(standing.rank).engine();
  const auto* list = stepper.control(standing.rank).list();
  const bool waits = list != nullptr && engine.running() && engine.finished() < static_cast<int>(list->entries.size());
  auto text = waits ? runtime::describe(engine.wait()) : fmt::format("rank {} is done with the step's list", standing.rank);
  if (standing.action) text += fmt::format("; it ran {} last", standing.action->action);
  return text;
}

std::string program_text(const actors::Stepper& stepper, const runtime::Action& action, runtime::RankId rank,
                         std::optional<std::size_t> arrow) {
  const auto pass = runtime::pass_of(action.kind);
  const auto& programs = stepper.rank(rank).compute().stage(action.stage).programs(pass);
  const auto& program = programs.program(runtime::program_of(pass));
  auto text = fmt::format("{} on rank {}, {} of stage {}:\n", action, rank, runtime::to_string(pass), action.stage);
  for (std::size_t index = 0; index < program.size(); ++index) {
    const auto& operation = program[index];
    std::string results, operands;
    for (const auto id : operation.outputs) results += (results.empty() ? "" : ", ") + kernels::to_string(programs.value(id).type.shape);
    for (const auto id : operation.inputs) operands += (operands.empty() ? "" : ", ") + programs.value(id).name;
    text += fmt::format("{} {:>3}  {:<44} {:<32} {:<22} ({})\n", arrow == index ? "→" : " ", index, operation.name, kind_of(operation),
                        results, operands);
  }
  return arrow == program.size() ? text + "→ all have run\n" : text;
}

std::string action_text(const actors::Execute& action, runtime::RankId rank) {
  auto text = fmt::format("{} on rank {} ({} of stage {}, microbatch {})", action.action, rank, runtime::to_string(action.pass),
                          action.action.stage, action.action.microbatch);
  if (action.segments > 1) text += fmt::format(", segment {} of {}", action.segment, action.segments);
  return text;
}

}  // namespace

std::string where_text(const actors::Stepper& stepper, const DebugCursor& standing) {
  std::string text;
  for (int rank = 0; rank < stepper.plan().ranks(); ++rank) text += rank_line(stepper, standing, runtime::RankId(rank));
  return text + "         done  [ready]  >running<  (blocked)\n";
}

std::string queue_text(const actors::Stepper& stepper) {
  auto text =
      fmt::format("{:>4}  {:<28} {:<11} {:>9} {:>12} {:>12}\n", "edge", "from → to", "carries", "messages", "slots free", "bytes each");
  const auto& plan = stepper.plan();
  for (const auto& edge : plan.edges) {
    const auto state = stepper.control(edge.consumer_rank).engine().ring(edge.id);
    const int taken = edge.local() ? state.tokens : stepper.control(edge.producer_rank).engine().ring(edge.id).taken;
    text += fmt::format("{:>4}  {:<30} {:<11} {:>7} {:>12} {:>12}\n", edge.id.value,
                        fmt::format("stage {} (rank {}) → {} ({})", edge.producer, edge.producer_rank, edge.consumer, edge.consumer_rank),
                        runtime::to_string(edge.kind), state.tokens, state.depth - taken, plan.boundary_bytes(edge.id));
  }
  return text;
}

std::string operations_text(const actors::Stepper& stepper, const DebugCursor& standing) {
  const actors::Execute* action = current_action(stepper, standing);
  if (action == nullptr) return fmt::format("{}; `ops 2F3` shows the program of any action\n", idle_text(stepper, standing));
  const auto& programs = stepper.rank(standing.rank).compute().stage(action->action.stage).programs(action->pass);
  const auto segments = programs.segments(runtime::program_of(action->pass));
  const auto& segment = segments.at(static_cast<std::size_t>(action->segment));
  const bool begun = standing.action && action == &*standing.action;
  return program_text(stepper, action->action, standing.rank, begun ? operations_run(programs, standing) : segment.first);
}

std::string operations_text(const actors::Stepper& stepper, const std::string& action_text) {
  const auto action = runtime::parse_action(action_text);
  return program_text(stepper, action, rank_of(stepper.plan(), action), std::nullopt);
}

runtime::RankId rank_of(const PipelinePlan& plan, const runtime::Action& action) {
  const auto& ranks = plan.schedule.ranks;
  std::vector<std::int32_t> microbatches;  // for which the schedule has such an action
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& other : ranks[rank]) {
      if (other == action) return runtime::RankId(static_cast<int>(rank));
      if (other.stage == action.stage && other.kind == action.kind) microbatches.push_back(other.microbatch.value);
    }
  const std::string copy = plan.stages() > plan.schedule.placement.model_stages() && action.stage.value < plan.stages()
                               ? fmt::format(", of copy {},", plan.schedule.placement.replica_of(action.stage))
                               : "";
  std::ranges::sort(microbatches);
  fail(ExitCode::usage, debugger, "{} is in no list of schedule {}: {}", action, plan.schedule.name,
       action.stage.value >= plan.stages() ? fmt::format("stages are 0 to {}", plan.stages() - 1)
       : microbatches.empty()              ? fmt::format("stage {}{} has no such actions", action.stage, copy)
                                           : fmt::format("stage {}{} has it for {} {}", action.stage, copy,
                                            microbatches.size() == 1 ? "microbatch" : "microbatches", fmt::join(microbatches, ", ")));
}

std::string standing_text(const actors::Stepper& stepper, const DebugCursor& standing) {
  if (!standing.inside && stepper.ended()) return fmt::format("ended: {}", *stepper.ended());
  if (standing.inside && standing.action) {
    auto text = fmt::format("step {}, {}", stepper.step() + 1, action_text(*standing.action, standing.rank));
    if (standing.call != nullptr)
      text += fmt::format(", {} operation {} of {}, {}", standing.after ? "after" : "before", standing.call->index,
                          standing.call->programs.program(standing.call->kind).size(), standing.call->operation.name);
    return text;
  }
  if (standing.behind && standing.action) {
    auto text = fmt::format("step {}, after {}", standing.action->step + 1, action_text(*standing.action, standing.rank));
    const auto* following = stepper.next();
    if (following == nullptr) return text;
    text += fmt::format("; next {} on rank {}", following->action, stepper.next_rank());
    return following->step == standing.action->step ? text : text + fmt::format(" of step {}", following->step + 1);
  }
  const auto* action = stepper.next(standing.rank);
  if (action == nullptr) return fmt::format("step {}, {}", stepper.step() + 1, idle_text(stepper, standing));
  return fmt::format("step {}, before {}", stepper.step() + 1, action_text(*action, standing.rank));
}

}  // namespace millrace::actors
