#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/control/control_link.hpp"

namespace millrace::cluster {

/// Serialises a failure for process 0 to forward, and parses it. Malformed bytes give process −1.
std::vector<std::byte> peer_failure_bytes(const PeerFailure& loss);
PeerFailure peer_failure_from_bytes(std::span<const std::byte> bytes);

/// Whether all of a job's processes are on this host, according to the launcher.
bool is_on_one_host(const Launch& launch, int processes);
/// Whether `process`, which is this one, is on process 0's host, assuming that the launcher fills one host after another. Another
/// order does no harm below.
bool is_beside_center(const Launch& launch, int process, int processes);
/// Whether this process prints the failure: process 0 does. If process 0 failed, it is the lowest survivor or, with several
/// hosts, the first process of each host, since others of process 0's host may have failed with it, and only process 0 would have
/// known.
bool reports_peer_failures(const Launch& launch, int process, const std::vector<bool>& is_lost);

}  // namespace millrace::cluster
