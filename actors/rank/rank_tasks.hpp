#pragma once

#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"
#include "actors/rank/sum_exchange.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::actors {

/// Rank-wide work for the compute worker, with what it needs to be told.
struct RankTask {
  RankTaskKind work = RankTaskKind::sums;
  runtime::UpdateScalars scalars;  // of the optimizer
};

/// What a rank does beside its stages' programs: gradient sums, their squares, the optimizer, snapshots. On the worker, in order with the
/// actions; results are read once the control has been told that the task is done.
class RankTasks {
 public:
  /// Both outlive it.
  RankTasks(Rank& rank, const SumExchangeState& exchange) : rank_(rank), exchange_(exchange) {}

  /// Does it or, on a GPU, queues it.
  void perform(const RankTask& task);
  /// What is left to do when it is done.
  void finish(const RankTask& task);
  /// Where the last of the work is.
  [[nodiscard]] kernels::StreamKind lane(const RankTask& task) const;

  /// Of RankTaskKind::squares.
  [[nodiscard]] const std::vector<runtime::TensorSquareSum>& squares() const noexcept { return squares_; }
  /// Of RankTaskKind::snapshot: the parameters that another rank has too.
  [[nodiscard]] const std::vector<CopyHash>& copy_hashes() const noexcept { return copy_hashes_; }

 private:
  void send_sums();
  void add_sums();
  void hash_copies();

  Rank& rank_;
  const SumExchangeState& exchange_;
  std::vector<runtime::TensorSquareSum> squares_;  // kept, so that a steady step fills room that it has
  std::vector<CopyHash> copy_hashes_;
};

}  // namespace millrace::actors
