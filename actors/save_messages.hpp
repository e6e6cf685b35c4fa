#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

/// Messages within process 0 that begin a checkpoint, or end the run with one.
namespace millrace::actors {

/// Main → coordinator actor: a signal asks the run to save and stop.
struct StopSoon {};

/// Coordinator actor → checkpoint actor, whose thread alone uses the checkpoint store. The folder for an attempt, or an Error, is
/// set in `folder`, for which the sender waits.
struct BeginCheckpoint {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;  // of the whole state
  std::shared_ptr<std::promise<std::string>> folder;
};

}  // namespace millrace::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::StopSoon)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::BeginCheckpoint)
