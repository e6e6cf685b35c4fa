#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/control/control_link.hpp"

namespace millrace::cluster {

/// A loss as process 0 passes it on, and back. A text that is no loss gives process −1.
std::vector<std::byte> peer_failure_bytes(const PeerFailure& loss);
PeerFailure peer_failure_from_bytes(std::span<const std::byte> bytes);

/// Whether all of a job's processes are on this host, as far as the launcher says.
bool is_on_one_host(const Launch& launch, int processes);
/// Whether `process`, which is this one, is on process 0's host: launchers fill hosts one after the other. Another order is no harm below.
bool is_beside_center(const Launch& launch, int process, int processes);
/// Whether this process prints what was lost: process 0 does; where that is lost the lowest survivor, or of several hosts the first of
/// each, since others of process 0's host may be lost with it, and it alone would have known.
bool speaks_of_losses(const Launch& launch, int process, const std::vector<bool>& is_lost);

}  // namespace millrace::cluster
