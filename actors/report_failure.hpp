#pragma once

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <exception>

#include "actors/messages/messages.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::actors {

/// Sends whatever `body` throws as a message to the rank actor.
template <class Body>
void guarded(const caf::actor& rank_actor, const runtime::Action& action, bool in_action, Body&& body) {
  try {
    body();
  } catch (const std::exception& thrown) {
    const auto error = as_error(thrown, "actors.rank");
    caf::anon_send(rank_actor, TaskFailed{action, in_action, static_cast<std::int32_t>(error.code()), error.what()});
  }
}

/// Passes what a handler of the actor itself throws to `report`, so that it ends the job with its message: CAF would end the actor alone,
/// and everybody would wait for it.
template <class Report>
void report_exceptions(caf::event_based_actor& actor, Report report) {
  actor.set_exception_handler([report](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& unhandled) {
      const auto error = as_error(unhandled, "actors.rank");
      report(TaskFailed{{}, false, static_cast<std::int32_t>(error.code()), error.what()});
    }
    return caf::exit_reason::unhandled_exception;
  });
}

}  // namespace millrace::actors
