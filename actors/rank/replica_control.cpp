#include <utility>

#include "actors/rank/rank_control.hpp"
#include "runtime/engine/trace.hpp"

// The transfers of a rank with those that hold the same weights, after a step's list and after the optimizer.
namespace millrace::actors {

/// The rank has its own sums, or what it owns of the sums of all replicas.
void RankControl::sums_complete() {
  transfers_ = Transfers::none;
  idle_since_ = 0;
  sum_exchange_.there() ? send_sums() : port_.work({RankTaskKind::squares, {}});
}

void RankControl::send_sums() {
  show("exchanges gradient sums", runtime::no_stage, runtime::no_microbatch);
  transfer_work({RankTaskKind::sums_sent, {}});
}

void RankControl::add_sums() { transfer_work({RankTaskKind::sums_added, {}}); }

void RankControl::begin_transfers(Transfers transfers) {
  constexpr std::size_t gathers_ahead = 8;
  const ReplicaExchange& replicas = *rank_.replicas();
  transfers_ = transfers;
  const bool sums = transfers == Transfers::sums;
  sums_added_ = 0;
  queue_.begin(sums ? replicas.reduction_exchanges() : replicas.gather_exchanges(), sums ? runtime::reduction_steps_ahead : gathers_ahead);
  transfer();
}

void RankControl::show_transfers() {
  runtime::Wait wait;
  wait.reason = runtime::WaitReason::replicas;
  show(transfers_ == Transfers::sums ? "waits for gradient sums of replicas" : "waits for parameters of replicas", runtime::no_stage,
       runtime::no_microbatch, wait);
}

void RankControl::replicas_exchanged(std::size_t transfer) {
  queue_.ended(transfer);
  this->transfer();
}

/// Orders what may follow: additions of what is in, then further posts, whose arrivals take the places of what was added.
void RankControl::transfer() {
  const bool sums = transfers_ == Transfers::sums;
  while (const auto index = queue_.to_take())
    if (sums) transfer_work({RankTaskKind::replica_sums_added, {}, *index});
  while (const auto index = queue_.to_post())
    transfer_work({sums ? RankTaskKind::replica_sums_sent : RankTaskKind::parameters_sent, {}, *index});
  if (!queue_.all_taken()) return show_transfers();
  show("completes its step", runtime::no_stage, runtime::no_microbatch);
  if (sums) return;  // once the last ones are added
  transfer_work({transfers_ == Transfers::updated ? RankTaskKind::update_completed : RankTaskKind::averages_completed, scalars_});
  if (transfers_ == Transfers::updated) transfers_ = Transfers::none;
}

/// A task of a transfer, at which a wait ends.
void RankControl::transfer_work(const RankTask& task) {
  ++transfer_tasks_;
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
  if (--transfer_tasks_ == 0) idle_since_ = finished.end;
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

/// Averages, or the parameters again, are in their places on all replicas.
void RankControl::averages_complete() {
  transfer_tasks_ = 0;
  transfers_ = Transfers::none;
  if (!averages_in_place_) {
    show("waits for the coordinator", runtime::no_stage, runtime::no_microbatch);
    return port_.report(evaluation_report_);
  }
  start(Table::evaluation, rank_.evaluation_plan(), step_);
  abandoned_ = std::exchange(abandons_, false) && table_ == Table::evaluation && list_->exchanges.empty();
}

}  // namespace millrace::actors
