#pragma once

#include <cstddef>
#include <span>

#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Collective: every process gets the `bytes` of each, in the order of processes. `all` must have room for them; the sizes are
/// the same everywhere. Links keep working meanwhile.
void all_gather(Transport& transport, std::span<const std::byte> bytes, std::span<std::byte> all);

}  // namespace millrace::cluster
