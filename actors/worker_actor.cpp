#include "actors/worker_actor.hpp"

#include <caf/mailbox_element.hpp>

namespace millrace::actors {

WorkerActor::WorkerActor(caf::actor_config& config, ComputeWorker& worker, ComputeWorker::Load load)
    : caf::event_based_actor(config), worker_(worker), load_(load), unit_(&system()) {}

// Launched lazily: a lazy actor with an empty mailbox is not scheduled by CAF, and this one's mailbox stays empty, since messages
// go to the worker's queue.
void WorkerActor::launch(caf::execution_unit* unit, bool, bool hide) { caf::event_based_actor::launch(unit, true, hide); }

// One task per message. CAF's own scheduling has one task per actor, which handles all of its waiting messages: a later message to
// this actor could overtake an earlier one to another actor.
void WorkerActor::enqueue(caf::mailbox_element_ptr element, caf::execution_unit*) {
  caf::intrusive_ptr_add_ref(ctrl());  // until the task has run
  worker_.post(load_, [this, message = element.release()] {
    {
      const caf::mailbox_element_ptr owned(message);
      activate(&unit_, *owned);  // drops the message if the actor has ended
    }
    caf::intrusive_ptr_release(ctrl());
  });
}

}  // namespace millrace::actors
