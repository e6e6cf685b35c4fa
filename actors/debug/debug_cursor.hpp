#pragma once

#include <cstddef>
#include <optional>

#include "actors/messages/messages.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/executor.hpp"

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

}  // namespace millrace::actors
