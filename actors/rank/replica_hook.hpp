#pragma once

#include "actors/rank/replica_exchange.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Goes on with the transfers between replicas after every operation of an action, so that they do not wait for its end. Of the last action
/// that adds to a stage's gradient sums each bucket leaves as soon as the action has completed it.
class ReplicaHook final : public runtime::OperationHook {
 public:
  /// `next`: the hook around which this one goes; may be null. `completes`: the stage whose sums the action completes, or no_stage.
  ReplicaHook(runtime::OperationHook* next, ReplicaExchange& replicas, const kernels::ExecutionContext& context, runtime::StageId completes)
      : next_(next), replicas_(replicas), context_(context), completes_(completes) {}

  [[nodiscard]] Sight sight() const override { return next_ != nullptr ? next_->sight() : Sight::addresses; }
  void before(const Call& call) override;
  void after(const Call& call) override;

 private:
  runtime::OperationHook* next_;
  ReplicaExchange& replicas_;
  const kernels::ExecutionContext& context_;
  runtime::StageId completes_;
};

}  // namespace millrace::actors
