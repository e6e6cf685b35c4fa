#pragma once

#include <cstddef>
#include <optional>

#include "actors/messages/messages.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Where a debugging session stands: between actions, or around one operation of one.
struct DebugCursor {
  runtime::RankId rank = runtime::RankId(0);           // whose turn it is, or was last
  std::optional<actors::Execute> action;               // that runs, or that this rank ran last
  bool inside = false;                                 // the action runs
  const runtime::OperationHook::Call* call = nullptr;  // inside: the operation at hand
  bool after = false;                                  // … has run
};

}  // namespace millrace::actors
