#pragma once

#include <cstddef>
#include <optional>

#include "actors/messages/messages.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/executor.hpp"
#include "runtime/program/program.hpp"

namespace millrace::actors {

/// The position of a debugging session: between actions, or around an operation of one.
struct DebugCursor {
  runtime::RankId rank = runtime::RankId(0);           // the rank whose turn it is, or was last
  std::optional<actors::Execute> action;               // the action that is running, or that this rank ran last
  bool inside = false;                                 // the action is running
  bool behind = false;                                 // the session stopped because the action had run, not before the rank's next one
  const runtime::OperationHook::Call* call = nullptr;  // if inside: the current operation
  bool after = false;                                  // whether that operation has run
};

/// Operations of the position's action, which must exist, that have run: up to the current one, else to the end of the action or, where
/// exchanges divide it, of its segment. `programs` are those of the action's pass.
[[nodiscard]] inline std::size_t operations_run(const runtime::ProgramSet& programs, const DebugCursor& standing) {
  if (standing.inside && standing.call != nullptr) return standing.call->index + (standing.after ? 1 : 0);
  const auto segments = programs.segments(runtime::program_of(standing.action->pass));
  return segments.at(static_cast<std::size_t>(standing.action->segment)).end;
}

}  // namespace millrace::actors
