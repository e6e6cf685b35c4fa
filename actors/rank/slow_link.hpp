#pragma once

#include <chrono>

namespace millrace::actors {

/// A link that is slower than the one that carries its messages, for rehearsals: an arrival is reported when it would have come over this
/// one, after the messages before it.
struct SlowLink {
  std::chrono::nanoseconds latency{}, occupancy{};
  std::chrono::steady_clock::time_point free = {};
};

}  // namespace millrace::actors
