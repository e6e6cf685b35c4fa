#pragma once

#include <array>
#include <caf/actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "actors/message_actor.hpp"
#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// A decoder stage: the shell around one stage's programs. Told by its rank's actor what to run, it posts that to the rank's compute
/// worker, which tells the rank actor when it is done. Nothing computes in the actor itself.
class StageActor : public MessageActor {
 public:
  /// `rank` outlives the actor.
  StageActor(caf::actor_config& config, Rank& rank, runtime::StageId stage, caf::actor rank_actor);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "stage"; }

 private:
  /// What the worker needs of the stage; lives as long as the rank's tasks may.
  struct Work {
    Rank& rank;
    caf::actor rank_actor;
    std::array<std::string, 4> fault_points;  // "stage1.forward" …: where a test may slow, stop or kill this stage
    std::optional<Error> failure;             // what the device answered when it had failed
    void run(const Execute& execute);
    void queue(const Execute& execute);
    void device_failed(const Execute& execute, const Error& error);
    void done(const runtime::Action& action, std::int64_t host, const Completion& completion);
  };
  Rank& rank_;
  std::shared_ptr<Work> work_;
};

/// Whatever `body` throws, as a message to the rank actor.
template <class Body>
void guarded(const caf::actor& rank_actor, const runtime::Action& action, bool in_action, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    caf::anon_send(rank_actor, TaskFailed{action, in_action, static_cast<std::int32_t>(error.code()), error.what()});
  } catch (const std::exception& error) {
    caf::anon_send(rank_actor, TaskFailed{action, in_action, static_cast<std::int32_t>(ExitCode::internal), error.what()});
  }
}

/// What a handler of the actor itself throws ends the job with its message too: CAF would end the actor alone, and everybody would wait for
/// it.
template <class Report>
void report_exceptions(caf::event_based_actor& actor, Report report) {
  actor.set_exception_handler([report](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      report(TaskFailed{{}, false, static_cast<std::int32_t>(error.code()), error.what()});
    } catch (const std::exception& error) {
      report(TaskFailed{{}, false, static_cast<std::int32_t>(ExitCode::internal), error.what()});
    }
    return caf::exit_reason::unhandled_exception;
  });
}

}  // namespace millrace::actors
