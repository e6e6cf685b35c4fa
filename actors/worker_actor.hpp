#pragma once

#include <caf/event_based_actor.hpp>
#include <caf/scoped_execution_unit.hpp>

#include "actors/rank/compute_worker.hpp"

namespace millrace::actors {

/// An actor that lives on its rank's compute worker: a message to it is a task in the worker's queue. All actors of a rank
/// therefore handle their messages in the order in which these were sent, even across actors, and work is enqueued in the order in
/// which it was decided. CAF's thread pool never runs such an actor, so a handler may compute for as long as it needs.
class WorkerActor : public caf::event_based_actor {
 public:
  /// `worker` must outlive the actor. `load`: whether its messages decide or compute (see ComputeWorker::Load).
  WorkerActor(caf::actor_config& config, ComputeWorker& worker, ComputeWorker::Load load);

  /// Does not run the actor. Its first message does, and initialises its behavior.
  void launch(caf::execution_unit* unit, bool lazy, bool hide) override;
  /// Any thread; never blocks.
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override;
  using caf::event_based_actor::enqueue;

 protected:
  [[nodiscard]] ComputeWorker& worker() noexcept { return worker_; }

 private:
  ComputeWorker& worker_;
  const ComputeWorker::Load load_;
  caf::scoped_execution_unit unit_;  // schedules the messages that it sends to actors of CAF's pool
};

}  // namespace millrace::actors
