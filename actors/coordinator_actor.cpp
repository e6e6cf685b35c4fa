#include "actors/coordinator_actor.hpp"

#include <caf/send.hpp>
#include <chrono>
#include <utility>

#include "actors/save_messages.hpp"
#include "kernels/base/system_refusal.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

CoordinatorActor::CoordinatorActor(caf::actor_config& config, CoordinatorActorSetup setup)
    : MessageActor(config), setup_(std::move(setup)), coordinator_(setup_.coordinator, *this) {}

caf::behavior CoordinatorActor::make_behavior() {
  auto guarded = [this](auto&& body) {
    try {
      body();
    } catch (const std::exception& thrown) {
      const auto error = as_error(thrown, "actors.coordinator");
      finished(error.code(), error.what());
    }
  };
  return {
      [this, guarded](const ToCoordinator& message) { guarded([&] { coordinator_.receive(message); }); },
      [this, guarded](const StopSoon&) { guarded([&] { coordinator_.stop(); }); },
      [this, guarded](const CheckpointCommitted& result) {
        guarded([&] {
          setup_.reporter->checkpoint(result);
          coordinator_.committed(result.step, result.error);
        });
      },
  };
}

void CoordinatorActor::to_ranks(const ToRank& message) {
  if (const auto* begun = std::get_if<Evaluate>(&message)) setup_.reporter->evaluation_begins(begun->step, begun->microbatches);
  setup_.to_ranks(message);
}

void CoordinatorActor::ready(std::uint64_t planned_bytes) {
  setup_.reporter->say(fmt::format("memory    planned: {} on the rank with the most", runtime::bytes_text(planned_bytes)));
}

CheckpointAttempt CoordinatorActor::begin_checkpoint(std::int64_t step) {
  try {
    auto folder = std::make_shared<std::promise<std::string>>();
    auto begun = folder->get_future();
    send(setup_.checkpoint, BeginCheckpoint{step, setup_.state_bytes, std::move(folder)});
    attempt_ = begun.get();  // waits on this actor's own thread
    return {attempt_, {}};
  } catch (const Error& error) {
    const std::string problem(without_component(error.what()));
    setup_.reporter->checkpoint({step, problem, {}});
    return {{}, problem};
  }
}

void CoordinatorActor::commit_checkpoint(std::int64_t step, std::vector<std::string> reports) {
  send(setup_.checkpoint, CommitCheckpoint{step, attempt_, std::move(reports)});
}

void CoordinatorActor::discard_checkpoint(std::int64_t step, const std::string& why) {
  send(setup_.checkpoint, DiscardCheckpoint{step, attempt_, why});
}

void CoordinatorActor::evaluated(const EvaluationRecord& record) {
  const auto& begun = setup_.coordinator;
  setup_.reporter->evaluation(record, record.step == begun.first_step && begun.evaluation_recorded);
}

std::int64_t CoordinatorActor::now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void CoordinatorActor::finished(ExitCode code, const std::string& message) {
  if (auto finish = std::exchange(setup_.finished, nullptr)) finish(code, message);
  quit();
}

}  // namespace millrace::actors
