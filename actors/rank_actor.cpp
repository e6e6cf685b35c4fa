#include "actors/rank_actor.hpp"

#include <algorithm>
#include <caf/logger.hpp>
#include <caf/send.hpp>
#include <utility>

#include "actors/loader_actor.hpp"
#include "actors/report_failure.hpp"
#include "actors/stage_actor.hpp"

namespace millrace::actors {

RankActor::RankActor(caf::actor_config& config, RankActorSetup setup)
    : WorkerActor(config, setup.control.rank->worker(), ComputeWorker::Load::decides),
      setup_(std::move(setup)),
      rank_(*setup_.control.rank),
      control_(setup_.control, *this) {}

caf::behavior RankActor::make_behavior() {
  report_exceptions(*this, [this](const TaskFailed& failure) { control_.failed(failure); });
  const caf::actor self(this);
  loader_ = spawn<LoaderActor, caf::detached>(rank_, *setup_.control.batches, self);
  for (const auto stage : rank_.plan().schedule.placement.stages_of(rank_.id())) stages_.push_back(spawn_stage_actor(*this, rank_, stage));
  // Spawning lets the calling thread keep CAF's logger, for which the actor system waits at its end; this thread outlives the system.
  caf::logger::set_current_actor_system(nullptr);
  return {
      [this](const Begin&) { control_.begin(); },
      [this](const ToRank& message) { control_.receive(message); },
      [this](const BoundaryArrived& token) { control_.boundary_arrived(token.arrival); },
      [this](const SlotWritable& slot) { control_.slot_writable(slot.channel, slot.sequence); },
      [this](const ExchangeEnded& exchange) { control_.exchange_ended(exchange.sequence); },
      [this](const ReplicasExchanged&) { control_.replicas_exchanged(); },
      [this](const BatchReady& ready) { control_.batch_ready(ready.request); },
      [this](const ActionDone& action) { control_.action_done(action); },
      [this](const TaskDone& work) { control_.work_done(work); },
      [this](const TaskFailed& failure) { control_.failed(failure); },
      [this](const ShardWritten& written) { setup_.report(written); },
  };
}

void RankActor::execute(const Execute& execute) {
  send(stages_[static_cast<std::size_t>(rank_.plan().schedule.placement.chunk_of(execute.action.stage))], execute);
}

void RankActor::work(const RankTask& task) {
  // The worker is idle before the actor ends (Stop comes after every answer), so the plain pointer stays valid.
  worker().post(ComputeWorker::Load::computes, [this, task] {
    const caf::actor self(this);
    guarded(self, {}, false, [&] {
      rank_.begin_work();
      control_.perform(task);
      rank_.when_done(control_.lane(task), "rank-wide work", [this, task](const Completion& completion) {
        const caf::actor then(this);
        guarded(then, {}, false, [&] {
          control_.perform_then(task, completion);
          caf::anon_send(then, TaskDone{task.work, completion.begin, completion.end});
        });
      });
    });
  });
}

void RankActor::load(const LoadBatch& request) { send(loader_, request); }

void RankActor::write_shard(const WriteShard& request) { send(setup_.checkpoint, request); }

void RankActor::stopped() {
  send_exit(loader_, caf::exit_reason::user_shutdown);
  for (const auto& stage : stages_) send_exit(stage, caf::exit_reason::user_shutdown);
  // Stages and loader hold this actor and vice versa; the detached checkpoint actor's thread ends with its last handle.
  stages_.clear();
  loader_ = nullptr;
  setup_.checkpoint = nullptr;
  quit();
}

void RankInbox::on_arrival(const cluster::Arrival& arrival) {
  const auto channel = static_cast<std::size_t>(arrival.channel);
  if (channel >= links_.size()) return caf::anon_send(actor_, BoundaryArrived{arrival});
  SlowLink& link = links_[channel];
  const auto now = std::chrono::steady_clock::now();
  link.free = std::max(link.free, now) + link.occupancy;
  const auto wait = link.free + link.latency - now;
  wait.count() > 0 ? caf::delayed_anon_send(actor_, wait, BoundaryArrived{arrival}) : caf::anon_send(actor_, BoundaryArrived{arrival});
}

void RankInbox::on_part(const cluster::Arrival& part, std::size_t) { rank_.part_came(part); }

void RankInbox::on_writable(int channel, std::int64_t sequence) { caf::anon_send(actor_, SlotWritable{channel, sequence}); }

void RankInbox::on_exchanged(int, std::int64_t sequence) {
  const auto wait = rank_.exchange().kept(sequence);
  wait.count() > 0 ? caf::delayed_anon_send(actor_, wait, ExchangeEnded{sequence}) : caf::anon_send(actor_, ExchangeEnded{sequence});
}

void RankInbox::on_replicas_exchanged() { caf::anon_send(actor_, ReplicasExchanged{}); }

void RankInbox::failed(const TaskFailed& failure) { caf::anon_send(actor_, failure); }

}  // namespace millrace::actors
