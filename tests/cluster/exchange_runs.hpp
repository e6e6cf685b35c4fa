#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cluster/exchange/exchange.hpp"

namespace millrace::cluster {

/// The exchanges of all members of some groups.
struct ExchangeRun {
  std::vector<ExchangeGroup> groups;
  std::int64_t exchanges = 0;
  /// Bytes from a member to another or itself, by place in the group; the same in every process.
  std::function<std::int64_t(const ExchangeGroup&, std::int64_t sequence, int from, int to)> bytes;
  int outstanding = Exchanges::max_outstanding;  ///< a member posts exchange n once exchange n − outstanding has ended
  std::size_t piece_bytes = Exchanges::default_piece_bytes;
  std::function<void(int place)> before_post;  ///< delays
  std::int64_t allocation_free_from = -1;      ///< from this exchange on nothing may be allocated; -1: not checked
};

/// Sizes from 0 to `most`, many of them 0.
std::int64_t random_bytes(const ExchangeGroup& group, std::int64_t sequence, int from, int to, std::int64_t most);

/// Runs it, with a thread for each member of this process. Fails the test on a wrong byte, an end too few or too many or counters that are
/// not right, or if nothing ends for 60 s. Collective over processes.
void run_exchanges(const Topology& topology, Transport* transport, const ExchangeRun& run);

}  // namespace millrace::cluster
