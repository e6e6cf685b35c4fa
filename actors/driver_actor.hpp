#pragma once

#include <caf/behavior.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <utility>

#include "actors/message_actor.hpp"
#include "actors/messages/messages.hpp"
#include "actors/pipeline.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::actors {

/// A coordinator for a few phases that collects one Output and stops; used for parity, rehearsals and forward-only jobs.
/// `Derived` has a public handle() for each report that it expects, and inherits the others with `using DriverActor::handle`.
template <class Derived, class Output>
class DriverActor : public MessageActor {
 public:
  struct Setup {
    int ranks = 1;
    std::function<void(const ToRank&)> to_ranks;
    std::promise<Output>* output = nullptr;  // must outlive the actor
  };
  DriverActor(caf::actor_config& config, Setup setup) : MessageActor(config), setup_(std::move(setup)) {}

  caf::behavior make_behavior() override {
    return {[this](const ToCoordinator& message) {
              try {
                std::visit([this](const auto& report) { static_cast<Derived*>(this)->handle(report); }, message);
              } catch (const std::exception& thrown) {  // CAF would end only this actor, and all others would wait for it
                const auto error = as_error(thrown, "actors.driver");
                fail_job(error.code(), error.what());
              }
            },
            [](const CheckpointCommitted&) {}};
  }

  void handle(const StageFailed& failure) {
    const auto where = failure.action.empty() ? "" : fmt::format(", stage {}, action {}", failure.stage, failure.action);
    fail_job(static_cast<ExitCode>(failure.code), fmt::format("rank {}{}: {}", failure.rank, where, failure.cause));
  }
  template <class Report>
  void handle(const Report&) {}

 protected:
  void broadcast(const ToRank& phase) { setup_.to_ranks(phase); }
  /// To be called for every rank's answer to a phase: returns whether this was the last one.
  [[nodiscard]] bool all() {
    if (++answers_ < setup_.ranks) return false;
    answers_ = 0;
    return true;
  }
  /// Ends the job with this message; nothing else may follow.
  void fail_job(ExitCode code, const std::string& message) {
    setup_.output->set_exception(std::make_exception_ptr(Error(code, message)));
    quit();
  }
  void finish(Output output) {
    broadcast(Stop{});
    setup_.output->set_value(std::move(output));
    quit();
  }

 private:
  Setup setup_;
  int answers_ = 0;
};

/// Collective: starts the pipeline and returns when it has stopped: in process 0 what its driver collected, elsewhere an empty
/// Output. Never returns if the driver failed. `meanwhile` is called in process 0 about four times per second until then.
template <class Output>
[[nodiscard]] Output drive(Session& session, Pipeline& pipeline, const Pipeline::Start& start, std::promise<Output>& output,
                           const std::function<void()>& meanwhile = {}) {
  pipeline.start(start);
  Output result;
  try {
    if (session.leads()) {
      auto future = output.get_future();
      while (meanwhile && future.wait_for(std::chrono::milliseconds(250)) != std::future_status::ready) meanwhile();
      result = future.get();
    }
  } catch (const std::exception& thrown) {
    const auto error = as_error(thrown, "actors.driver");
    session.fail(error.code(), error.what());  // not thrown: the pipeline's actors are running, and its destructor would wait for them
  }
  pipeline.wait();
  pipeline.close();
  return result;
}

}  // namespace millrace::actors
