#pragma once

#include <caf/event_based_actor.hpp>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

#include <utility>
#endif

namespace millrace::actors {

#if defined(__SANITIZE_THREAD__)

/// Debian's libcaf_core is built without ThreadSanitizer, which therefore cannot see CAF's promise: what the sender of a message did before
/// it comes before what the receiver does with it. Said here for the sanitizer, with as much as CAF promises and no more; the pipeline lets
/// an actor take one message a turn in such a build.
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
inline constexpr bool kOneMessageATurn = true;

#else

/// What the actors of this room derive from.
using MessageActor = caf::event_based_actor;
inline constexpr bool kOneMessageATurn = false;

#endif

}  // namespace millrace::actors
