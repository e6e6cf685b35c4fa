#include "actors/debug/session_text.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  const actors::Execute* action = standing.inside && standing.action ? &*standing.action : stepper.next(standing.rank);
  if (action == nullptr) return fmt::format("rank {} has no action to run\n", standing.rank);
  const auto& programs = stepper.rank(standing.rank).compute().stage(action->action.stage).programs(action->pass);
  const auto& program = programs.program(runtime::program_of(action->pass));
  const auto segments = programs.segments(runtime::program_of(action->pass));
  const std::size_t first = segments.at(static_cast<std::size_t>(action->segment)).first;
  const std::size_t at = standing.call != nullptr ? standing.call->index + (standing.after ? 1 : 0) : first;
  auto text = fmt::format("{} on rank {}, {} of stage {}:\n", action->action, standing.rank, runtime::to_string(action->pass),
                          action->action.stage);
  for (std::size_t index = 0; index < program.size(); ++index) {
    const auto& operation = program[index];
    std::string results, operands;
    for (const auto id : operation.outputs) results += (results.empty() ? "" : ", ") + kernels::to_string(programs.value(id).type.shape);
    for (const auto id : operation.inputs) operands += (operands.empty() ? "" : ", ") + programs.value(id).name;
    text += fmt::format("{} {:>3}  {:<44} {:<32} {:<22} ({})\n", index == at ? "→" : " ", index, operation.name, kind_of(operation),
                        results, operands);
  }
  return text;
}

std::string standing_text(const actors::Stepper& stepper, const DebugCursor& standing) {
  if (!standing.inside && stepper.ended()) return fmt::format("ended: {}", *stepper.ended());
  const actors::Execute* action = standing.inside && standing.action ? &*standing.action : stepper.next(standing.rank);
  if (action == nullptr) return fmt::format("step {}, rank {} has nothing that it can run", stepper.step() + 1, standing.rank);
  auto text = fmt::format("step {}, {} on rank {} ({} of stage {}, microbatch {})", stepper.step() + 1, action->action, standing.rank,
                          runtime::to_string(action->pass), action->action.stage, action->action.microbatch);
  if (action->segments > 1) text += fmt::format(", segment {} of {}", action->segment, action->segments);
  if (standing.call != nullptr) {
    text += fmt::format(", {} operation {} of {}, {}", standing.after ? "after" : "before", standing.call->index,
                        standing.call->programs.program(standing.call->kind).size(), standing.call->operation.name);
  }
  return text;
}

}  // namespace millrace::actors
