#pragma once

#include <caf/event_based_actor.hpp>
#include <caf/scoped_execution_unit.hpp>

#include "actors/rank/compute_worker.hpp"

namespace millrace::actors {

/// An actor that lives on its rank's compute worker: a message to it is a task in the worker's queue. So all actors of a rank take their
/// messages in the one order in which these were sent, whichever of them each is for, and what one of them decides is enqueued in the order
/// of its decisions. The pool of CAF's threads never runs such an actor: it may compute as long as it needs.
class WorkerActor : public caf::event_based_actor {
 public:
  /// `worker` outlives the actor. `load`: what its messages make the worker do.
  WorkerActor(caf::actor_config& config, ComputeWorker& worker, ComputeWorker::Load load);

  /// Does not run the actor: its first message does, and lets it make its behavior.
  void launch(caf::execution_unit* unit, bool lazy, bool hide) override;
  /// Any thread; never blocks.
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override;
  using caf::event_based_actor::enqueue;

 protected:
  [[nodiscard]] ComputeWorker& worker() noexcept { return worker_; }

 private:
  ComputeWorker& worker_;
  const ComputeWorker::Load load_;
  caf::scoped_execution_unit unit_;  // what it sends to actors of the pool is scheduled there
};

}  // namespace millrace::actors
