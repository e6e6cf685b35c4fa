#include <utility>

#include "actors/rank/rank_control.hpp"
#include "runtime/engine/trace.hpp"

// The transfers of a rank with those that hold the same weights: gradient sums during and after a list, parameters after the optimizer.
namespace millrace::actors {

// -- gradient sums ------------------------------------------------------------------------------------------------------------------------

/// Says what replicas will add together and gather in the list that begins.
void RankControl::begin_transfers() {
  residences_ = weight_slots_.run(*list_, std::move(residences_));
  transfers_ = actors::list_transfers(rank_.plan(), rank_.compute().reduction(), *list_, residences_, std::move(transfers_));
  leaves_added_ = slots_freed_ = residences_here_ = 0;
  if (!residences_.empty()) engine_.will_gather(*list_, residences_);
  rank_.replicas()->begin_list(transfers_, runtime::StepId(step_));
  // An evaluation of averages gathers these, once they are in their places.
  const bool averages = table_ == Table::evaluation && averages_in_place_;
  if (!averages) free_slots(0);
}

/// So many entries of the list are finished: slots that nothing of it needs any more go to the next stages.
void RankControl::free_slots(int finished) {
  const std::size_t before = slots_freed_;
  const auto& gathers = transfers_.gathers;
  for (; slots_freed_ < gathers.size() && gathers[slots_freed_].residence.free <= finished; ++slots_freed_) rank_.replicas()->slot_free();
  if (slots_freed_ > before) request_transfers();
}

/// The sum that an entry completes when its action ends; -1: none.
int RankControl::sum_of(const runtime::PlannedEntry& entry) const {
  if (!rank_.adds_with_replicas()) return -1;
  return transfers_.sum_of.at(static_cast<std::size_t>(&entry - list_->entries.data()));
}

int RankControl::completes(const runtime::PlannedEntry& entry) const {
  const PipelinePlan& plan = rank_.plan();
  return plan.accumulators == 1 && plan.expert_accumulators == 1 ? sum_of(entry) : -1;
}

/// An action is done.
void RankControl::note_gradients(const runtime::PlannedEntry& entry) {
  if (const int sum = sum_of(entry); sum >= 0) transfer_work({RankTaskKind::list_sum, {}, static_cast<std::size_t>(sum)});
}

/// The list is finished; some sums of other replicas may be missing.
void RankControl::wait_for_sums() {
  sums_wanted_ = true;
  if (transfer_tasks_ == 0) idle_since_ = finished_at_;
  note_transfers();
  if (sums_wanted_) show_transfers();
}

/// The rank has its own sums, or what it owns of the sums of all replicas.
void RankControl::sums_complete() {
  sums_wanted_ = false;
  idle_since_ = 0;
  show("gradient norm", runtime::no_stage, runtime::no_microbatch);
  if (sum_exchange_.there()) return send_sums();
  if (rank_.adds_with_replicas()) port_.work({RankTaskKind::uses, {}});
  port_.work({RankTaskKind::squares, {}});
}

void RankControl::send_sums() {
  show("exchanges gradient sums", runtime::no_stage, runtime::no_microbatch);
  transfer_work({RankTaskKind::sums_sent, {}});
}

void RankControl::add_sums() { transfer_work({RankTaskKind::sums_added, {}}); }

// -- parameters ---------------------------------------------------------------------------------------------------------------------------

/// Whether a message can be dealt with now. While weights are gathered a list may begin, which waits for those of each stage.
bool RankControl::may_handle(const ToRank& message) const {
  if (weights_ != Weights::gathered) return weights_ == Weights::here;
  if (const auto* evaluate = std::get_if<Evaluate>(&message)) return !evaluate->average;
  return std::holds_alternative<RunStep>(message);
}

/// No action begins on the weights of a stage until it has what other replicas own of them.
void RankControl::weights_leave() {
  weights_ = Weights::away;
  stages_here_ = 0;
  for (const auto& stage : rank_.compute().reduction().gathered) engine_.weights_leave(stage.stage);
}

/// The rank has written what it owns: to all replicas with it. `updated`: by the optimizer.
void RankControl::gather(bool updated) {
  if (weights_ == Weights::here) weights_leave();
  weights_ = Weights::gathered;
  rank_.replicas()->gather([this, updated](const runtime::StageShard& shard) {
    if (updated) tasks_.complete_update(shard);
  });
  request_transfers();
}

/// An evaluation of averages is over, and all of them are here: the parameters get their places back.
void RankControl::end_averages() {
  averages_in_place_ = false;
  exchange_averages();
  port_.report(*std::exchange(averaged_, std::nullopt));
}

/// Exchanges the parameters that the rank owns with their moving averages.
void RankControl::exchange_averages() {
  if (rank_.adds_with_replicas() && !rank_.plan().divides_masters()) weights_leave();
  weight_slots_.clear();
  port_.work({RankTaskKind::averages, {}});
}

// -- both ---------------------------------------------------------------------------------------------------------------------------------

void RankControl::replicas_exchanged() { request_transfers(); }

/// Has the worker go on with the transfers, once what it has now is done.
void RankControl::request_transfers() {
  if (std::exchange(transfers_requested_, true)) {
    transfers_again_ = true;
    return;
  }
  transfer_work({RankTaskKind::transfers, {}});
}

/// The worker went on with them.
void RankControl::transfers_done(const TaskDone& finished) {
  const std::int64_t completed = rank_.replicas()->completed();
  if (std::exchange(transfers_noted_, completed) != completed || finished.work == RankTaskKind::list_sum)
    trace_task(runtime::SpanKind::optimizer, finished, step_);
  transfer_done(finished);
  if (finished.work == RankTaskKind::transfers) transfers_requested_ = false;
  if (!transfers_requested_ && std::exchange(transfers_again_, false)) request_transfers();
  note_transfers();
}

/// Goes on with what waited for transfers that are complete. Weights first: what else waits for them may begin a list or end the run.
void RankControl::note_transfers() {
  const ReplicaExchange& replicas = *rank_.replicas();
  const auto& stages = rank_.compute().reduction().gathered;
  const bool gathered = weights_ == Weights::gathered;
  while (weights_ == Weights::gathered && stages_here_ < replicas.gathered()) {
    const runtime::StageId stage = stages[stages_here_++].stage;
    if (stages_here_ == stages.size()) weights_ = Weights::here;
    carry_out(engine_.weights_arrived(stage));
  }
  if (gathered && weights_ == Weights::here && table_ == Table::none && !sums_wanted_) show_idle();
  if (weights_ == Weights::here && std::exchange(update_waits_, false)) port_.report(Optimized{rank_.id().value, step_});
  if (weights_ == Weights::here && averaged_) end_averages();
  while (!deferred_.empty() && may_handle(deferred_.front())) {
    const ToRank message = std::move(deferred_.front());
    deferred_.pop_front();
    handle_any(message);
  }
  while (table_ == Table::training && rank_.plan().divides_sums() && leaves_added_ < replicas.sums_added()) {
    ++leaves_added_;
    carry_out(engine_.leaf_added());
  }
  while (table_ != Table::none && residences_here_ < replicas.residences_here()) {
    ++residences_here_;
    carry_out(engine_.gathered());
  }
  if (!sums_wanted_) return;
  replicas.all_sums_added() ? sums_complete() : show_transfers();
}

void RankControl::show_transfers() {
  runtime::Wait wait;
  wait.reason = sums_wanted_ ? runtime::WaitReason::replicas : runtime::WaitReason::weights;
  show(sums_wanted_ ? "waits for gradient sums of replicas" : "waits for parameters of replicas", runtime::no_stage, runtime::no_microbatch,
       wait);
}

/// A task of a transfer, at which a wait ends.
void RankControl::transfer_work(const RankTask& task) {
  ++transfer_tasks_;
  end_wait();
  if (const std::int64_t begin = std::exchange(idle_since_, 0); begin > 0) {
    runtime::TraceRecord record;
    record.begin = begin;
    record.end = runtime::steady_now();
    record.step = runtime::StepId(step_);
    record.kind = runtime::SpanKind::wait;
    record.reason = runtime::WaitReason::replicas;
    rank_.trace().add(record);
  }
  port_.work(task);
}

/// Such a task is done. The worker waits if it has no other; whether it has to is known at the next one.
void RankControl::transfer_done(const TaskDone& finished) {
  const bool last = --transfer_tasks_ == 0;
  if (table_ != Table::none) {
    finished_at_ = std::max(finished_at_, finished.end);
    note_wait();
  } else if (last && (sums_wanted_ || finished.work == RankTaskKind::sums_sent || finished.work == RankTaskKind::sums_added)) {
    idle_since_ = finished.end;
  }
}

/// What the rank has sent to other replicas since this was asked last.
std::int64_t RankControl::take_replica_bytes() {
  const std::int64_t before = replica_bytes_;
  if (const ReplicaExchange* replicas = rank_.replicas()) replica_bytes_ = replicas->bytes_sent();
  if (rank_.plan().replicas() == 1) return 0;
  std::int64_t bytes = replica_bytes_ - before;
  for (const SumExchangeState::Round& round : sum_exchange_.rounds())
    for (const SumMessage* message : round.outgoing) bytes += static_cast<std::int64_t>(message->bytes());
  return bytes;
}

}  // namespace millrace::actors
