#pragma once

#include "actors/rank/replica_exchange.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Goes on with the transfers between replicas after every operation of an action, so that they do not wait for its end. Of an action
/// that completes gradient sums each bucket leaves as soon as it is complete.
class ReplicaHook final : public runtime::OperationHook {
 public:
  /// `next`: the hook around which this one goes; may be null. `completes`: Execute::completes.
  ReplicaHook(runtime::OperationHook* next, ReplicaExchange& replicas, const kernels::ExecutionContext& context, int completes)
      : next_(next), replicas_(replicas), context_(context), completes_(completes) {}

  [[nodiscard]] Sight sight() const override { return next_ != nullptr ? next_->sight() : Sight::addresses; }
  void before(const Call& call) override;
  void after(const Call& call) override;

 private:
  void advance(const Call& call);

  runtime::OperationHook* next_;
  ReplicaExchange& replicas_;
  const kernels::ExecutionContext& context_;
  int completes_;
};

}  // namespace millrace::actors
