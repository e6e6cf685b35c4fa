#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/links/link.hpp"

namespace millrace::cluster {

/// The traffic of every channel of an exchange: `messages` messages of size(channel, sequence) bytes, each with a pattern that
/// identifies it.
struct ExchangePlan {
  std::int64_t messages = 0;
  std::function<std::size_t(const ChannelSpec&, std::int64_t sequence)> size;
  std::function<void(int rank)> before_each;  ///< delays, probes
  bool hold_until_full = false;               ///< the receiver releases nothing until depth messages have arrived
  std::size_t piece_bytes = Links::default_piece_bytes;
};

/// Runs the exchange: one thread per rank of this process sends and receives on all its channels, as fast as slots allow. Fails
/// the test on a wrong order, size or byte, or if nothing moves for 60 s. Collective over processes.
void exchange(const std::vector<ChannelSpec>& specs, const ExchangePlan& plan);

}  // namespace millrace::cluster
