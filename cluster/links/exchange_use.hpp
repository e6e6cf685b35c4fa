#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::cluster {

/// What groups exchange. Each use has a communicator of its own, so that a message of one is never taken for one of the other: ranks that
/// are in groups of both have no common order of their exchanges.
enum class ExchangeUse : std::uint8_t {
  rows,      ///< of experts, inside of actions
  replicas,  ///< gradient sums and parameters, after a step's list
};
inline constexpr std::size_t exchange_uses = 2;

}  // namespace millrace::cluster
