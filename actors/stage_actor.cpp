#include "actors/stage_actor.hpp"

#include <utility>

#include "actors/rank/action_runner.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::actors {

StageActor::StageActor(caf::actor_config& config, Rank& rank, runtime::StageId stage, caf::actor rank_actor)
    : MessageActor(config), rank_(rank), work_(new Work{rank, std::move(rank_actor), {}, {}}) {
  const std::array<const char*, 4> kinds{"forward", "input_gradient", "weight_gradient", "backward"};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) work_->fault_points[kind] = fmt::format("stage{}.{}", stage, kinds[kind]);
}

caf::behavior StageActor::make_behavior() {
  report_exceptions(*this, [rank_actor = work_->rank_actor](const TaskFailed& failure) { caf::anon_send(rank_actor, failure); });
  return {
      [this](const Execute& execute) {
        // The shell ends after the worker, so the plain pointer is good.
        rank_.worker().post_in_order(execute.ticket, [work = work_.get(), execute] { work->run(execute); });
      },
  };
}

/// On the compute worker, as all that follows.
void StageActor::Work::run(const Execute& execute) {
  guarded(rank_actor, execute.action, true, [&] {
    try {
      queue(execute);
    } catch (const Error& error) {
      if (error.code() != ExitCode::device) throw;
      device_failed(execute, error);
    }
  });
}

void StageActor::Work::queue(const Execute& execute) {
  rank.begin_work();
  rank.set_breadcrumb(execute);
  runtime::fault_point(fault_points[static_cast<std::size_t>(execute.action.kind)].c_str());
  const std::int64_t begin = runtime::steady_now();
  rank.runner().run(rank, execute);
  const std::int64_t host = runtime::steady_now() - begin;
  const auto lane = execute.departure.present() ? kernels::StreamKind::copy_out : kernels::StreamKind::compute;
  rank.when_done(lane, "an action", [this, host, action = execute.action](const Completion& completion) {
    guarded(rank_actor, action, true, [&] { done(action, host, completion); });
  });
}

/// What was under way already has failed, if there was anything: the worker looks at it before its next task, and it is told first.
void StageActor::Work::device_failed(const Execute& execute, const Error& error) {
  if (failure) return;
  failure = error;
  rank.worker().post([this, action = execute.action] {
    guarded(rank_actor, action, true, [&] { caf::anon_send(rank_actor, rank.failure_of(*failure, &action)); });
  });
}

void StageActor::Work::done(const runtime::Action& action, std::int64_t host, const Completion& completion) {
  if (completion.error == nullptr)
    caf::anon_send(rank_actor, ActionDone{action, completion.begin, completion.end, rank.context().on_cuda() ? host : 0});
  else
    caf::anon_send(rank_actor, rank.failure_of(*completion.error, &action));
}

}  // namespace millrace::actors
