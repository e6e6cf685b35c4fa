#pragma once

#include <caf/event_based_actor.hpp>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

#include <utility>
#endif

namespace millrace::actors {

#if defined(__SANITIZE_THREAD__)

/// Debian's libcaf_core is built without ThreadSanitizer, which therefore cannot see CAF's guarantee that everything a sender did
/// before sending a message happens before the receiver handles it. This class states it for the sanitizer, with no more than CAF
/// guarantees; the pipeline lets an actor handle one message per turn in such a build.
class MessageActor : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override {
    __tsan_release(this);
    caf::event_based_actor::enqueue(std::move(element), unit);
  }
  resume_result resume(caf::execution_unit* unit, std::size_t messages) override {
    __tsan_acquire(this);
    const auto result = caf::event_based_actor::resume(unit, messages);
    __tsan_release(this);
    return result;
  }
};
inline constexpr bool one_message_a_turn = true;

#else

/// The base class of the actors in this folder.
using MessageActor = caf::event_based_actor;
inline constexpr bool one_message_a_turn = false;

#endif

}  // namespace millrace::actors
