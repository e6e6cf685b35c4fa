#include "actors/worker_actor.hpp"

#include <caf/mailbox_element.hpp>

namespace millrace::actors {

WorkerActor::WorkerActor(caf::actor_config& config, ComputeWorker& worker, ComputeWorker::Load load)
    : caf::event_based_actor(config), worker_(worker), load_(load), unit_(&system()) {}

// With nothing in its mailbox a lazy actor is not scheduled; its mailbox stays empty, as the worker's queue takes the place of that.
void WorkerActor::launch(caf::execution_unit* unit, bool, bool hide) { caf::event_based_actor::launch(unit, true, hide); }

// One task a message, and not one for the actor and all that waits for it, as CAF's own scheduling has: that would let a later message to
// this actor overtake an earlier one to another.
void WorkerActor::enqueue(caf::mailbox_element_ptr element, caf::execution_unit*) {
  caf::intrusive_ptr_add_ref(ctrl());  // until the task has run
  worker_.post(load_, [this, message = element.release()] {
    {
      const caf::mailbox_element_ptr owned(message);
      activate(&unit_, *owned);  // drops the message where the actor has ended
    }
    caf::intrusive_ptr_release(ctrl());
  });
}

}  // namespace millrace::actors
