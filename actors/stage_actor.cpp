#include "actors/stage_actor.hpp"

#include <utility>
#include <variant>

#include "actors/embedding_actor.hpp"
#include "actors/expert_actor.hpp"
#include "actors/head_actor.hpp"
#include "actors/mtp_actor.hpp"
#include "actors/rank/action_runner.hpp"
#include "actors/report_failure.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::actors {
namespace {

/// Which actor a stage gets: the first kind that fits it.
struct StageActorKind {
  bool (*fits)(const PipelinePlan& plan, runtime::StageId stage);
  caf::actor (*spawn)(caf::event_based_actor& rank_actor, Rank& rank, runtime::StageId stage);
};

template <class Actor>
caf::actor spawn(caf::event_based_actor& rank_actor, Rank& rank, runtime::StageId stage) {
  return rank_actor.spawn<Actor>(rank, stage, caf::actor(&rank_actor));
}

bool has_experts_alone(const PipelinePlan& plan, runtime::StageId stage) {
  const layers::StageLayout& layout = plan.layout.at(stage.index());
  if (!layout.starts_with_ffn || layout.length() != 1) return false;
  const auto& layer = layers::resolve(plan.model).layers.at(static_cast<std::size_t>(layout.first_layer));
  return std::holds_alternative<layers::ExpertsSpec>(layer.ffn);
}

constexpr std::array<StageActorKind, 5> kinds{{
    {[](const PipelinePlan& plan, runtime::StageId stage) { return plan.is_last(stage); }, spawn<HeadActor>},
    {[](const PipelinePlan& plan, runtime::StageId stage) { return plan.is_first(stage); }, spawn<EmbeddingActor>},
    {[](const PipelinePlan& plan, runtime::StageId stage) { return plan.layout.at(stage.index()).modules > 0; }, spawn<MtpActor>},
    {has_experts_alone, spawn<ExpertActor>},
    {[](const PipelinePlan&, runtime::StageId) { return true; }, spawn<StageActor>},
}};

}  // namespace

caf::actor spawn_stage_actor(caf::event_based_actor& rank_actor, Rank& rank, runtime::StageId stage) {
  const auto* kind = kinds.begin();
  while (!kind->fits(rank.plan(), stage)) ++kind;
  return kind->spawn(rank_actor, rank, stage);
}

StageActor::StageActor(caf::actor_config& config, Rank& rank, runtime::StageId stage, caf::actor rank_actor)
    : WorkerActor(config, rank.worker(), ComputeWorker::Load::computes),
      rank_(rank),
      stage_(rank.compute().hand_over(stage)),
      rank_actor_(std::move(rank_actor)) {
  const std::array<const char*, 4> kinds{"forward", "input_gradient", "weight_gradient", "backward"};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) fault_points_[kind] = fmt::format("stage{}.{}", stage, kinds[kind]);
}

caf::behavior StageActor::make_behavior() {
  report_exceptions(*this, [rank_actor = rank_actor_](const TaskFailed& failure) { caf::anon_send(rank_actor, failure); });
  return {[this](const Execute& execute) { this->execute(execute); }};
}

void StageActor::on_exit() {
  rank_.compute().take_back(std::move(stage_));
  rank_actor_ = nullptr;  // which holds this actor
}

void StageActor::execute(const Execute& execute) {
  guarded(rank_actor_, execute.action, true, [&] {
    try {
      enqueue_pass(execute);
    } catch (const Error& error) {
      if (error.code() != ExitCode::device) throw;
      device_failed(execute, error);
    }
  });
}

void StageActor::enqueue_pass(const Execute& execute) {
  rank_.begin_work();
  rank_.set_breadcrumb(execute);
  runtime::fault_point(fault_points_[static_cast<std::size_t>(execute.action.kind)].c_str());
  const std::int64_t begin = runtime::steady_now();
  rank_.runner().run(rank_, *stage_, execute);
  const std::int64_t host = runtime::steady_now() - begin;
  const auto lane = execute.departure.present() ? kernels::StreamKind::copy_out : kernels::StreamKind::compute;
  // All work of the rank is done when this actor ends, so the plain pointer stays valid.
  rank_.when_done(lane, "an action", [this, host, action = execute.action, segment = execute.segment](const Completion& completion) {
    guarded(rank_actor_, action, true, [&] { done(action, segment, host, completion); });
  });
}

/// Work that was enqueued earlier has failed too. The worker polls it before its next task, and so reports that failure first.
void StageActor::device_failed(const Execute& execute, const Error& error) {
  if (failure_) return;
  failure_ = error;
  worker().post(ComputeWorker::Load::decides, [this, action = execute.action] {
    guarded(rank_actor_, action, true, [&] { caf::anon_send(rank_actor_, rank_.failure_of(*failure_, &action)); });
  });
}

void StageActor::done(const runtime::Action& action, std::int32_t segment, std::int64_t host, const Completion& completion) {
  if (completion.error == nullptr)
    caf::anon_send(rank_actor_, ActionDone{action, segment, completion.begin, completion.end, host});
  else
    caf::anon_send(rank_actor_, rank_.failure_of(*completion.error, &action));
}

}  // namespace millrace::actors
