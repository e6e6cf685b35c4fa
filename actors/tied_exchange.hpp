#pragma once

#include <utility>

#include "cluster/link.hpp"

namespace millrace::actors {

/// How far the exchange of a tied table's gradient between its two ranks is, once a step: the own sum is sent, the other's arrives, they
/// are added, and the sent sum's slot comes back. Plain state; the rank actor asks it what may follow.
class TiedExchange {
 public:
  /// A step begins.
  void begin() { *this = TiedExchange(); }

  /// The own sum was handed to the link. True once both sums are here: add them.
  [[nodiscard]] bool sent() {
    sent_ = true;
    return both();
  }
  /// The other's sum lies where `arrival` says. True once both sums are here: add them.
  [[nodiscard]] bool arrived(const cluster::Arrival& arrival) {
    arrival_ = arrival;
    arrived_ = true;
    return both();
  }
  [[nodiscard]] const cluster::Arrival& arrival() const noexcept { return arrival_; }

  /// Before the step's report. False while the sent sum's slot is not free for the next step: then writable() says when.
  [[nodiscard]] bool may_report() {
    waits_ = adding_ && !writable_;
    return !waits_;
  }
  /// The sent sum's slot came back. True when a report has waited for it.
  [[nodiscard]] bool writable() {
    writable_ = true;
    return std::exchange(waits_, false);
  }

 private:
  bool both() {
    if (sent_ && arrived_) adding_ = true;
    return adding_;
  }

  bool sent_ = false, arrived_ = false, adding_ = false, writable_ = false, waits_ = false;
  cluster::Arrival arrival_;
};

}  // namespace millrace::actors
