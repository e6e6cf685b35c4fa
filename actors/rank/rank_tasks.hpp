#pragma once

#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"
#include "actors/rank/sum_exchange.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::actors {

/// Work on all shards of a rank for the compute worker, with its arguments.
struct RankTask {
  RankTaskKind work = RankTaskKind::sums;
  runtime::UpdateScalars scalars = {};  // for the optimizer
  std::size_t sum = 0;                  // for list_sum: which one
};

/// The end of a step: what a rank asks of the shards of its stages, one after another: gradient sums, their squares, the optimizer,
/// snapshots. Runs on the worker, in order with the actions, while no stage runs a program; results may be read once completion of the
/// task has been reported to the control.
class RankTasks {
 public:
  /// Both must outlive this object.
  RankTasks(Rank& rank, const SumExchangeState& exchange);

  /// How the next RankTaskKind::optimizer moves the routers' biases after it.
  void set_bias_update(const runtime::BiasUpdate& update) { bias_update_ = update; }
  /// Which heads it scales down after that.
  void set_qk_clip(const runtime::QkClip& clip) { qk_clip_ = clip; }
  /// What follows the optimizer on every rank that holds a weight: functions of whole tensors.
  void complete_update(const runtime::StageShard& shard);
  /// Performs the task or, on an asynchronous device, enqueues it.
  void perform(const RankTask& task);
  /// Completes the task when its work is done.
  void finish(const RankTask& task);
  /// The stream with the last of the work.
  [[nodiscard]] kernels::StreamKind lane(const RankTask& task) const;

  /// The result of RankTaskKind::squares.
  [[nodiscard]] const std::vector<runtime::TensorSquareSum>& squares() const noexcept { return squares_; }
  /// The result of RankTaskKind::snapshot: the parameters that another rank also has.
  [[nodiscard]] const std::vector<CopyHash>& copy_hashes() const noexcept { return copy_hashes_; }

 private:
  template <class Body>
  void for_each_shard(const Body& body);
  void send_sums();
  void add_sums();
  void add_local_uses();
  void complete_sum(std::size_t sum);
  void hash_copies();

  Rank& rank_;
  const SumExchangeState& exchange_;
  runtime::BiasUpdate bias_update_;
  runtime::QkClip qk_clip_;
  ExchangedSums exchanged_;
  std::vector<std::byte*> places_;                 // of the incoming messages of a round
  std::vector<runtime::TensorSquareSum> squares_;  // kept, so that a steady step reuses its memory
  std::vector<CopyHash> copy_hashes_;
};

}  // namespace millrace::actors
