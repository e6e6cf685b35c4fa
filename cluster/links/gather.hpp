#pragma once

#include <cstddef>
#include <span>

#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Collective: every process gets the `bytes` of each, in the order of processes. `all` has room for them; the same sizes everywhere. Links
/// keep moving meanwhile.
void all_gather(Transport& transport, std::span<const std::byte> bytes, std::span<std::byte> all);

}  // namespace millrace::cluster
