#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"
#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {

/// What everybody needs to find process 0 and to be believed by it. Broadcast over MPI at start; never in a command line, environment or
/// log.
struct Rendezvous {
  Bytes32 secret{};
  std::uint32_t pid = 0;  ///< of process 0
  std::uint16_t port = 0;
  std::uint16_t addresses = 0;
  std::array<char, 64> host{};                     ///< of process 0
  std::array<std::array<char, 48>, 16> address{};  ///< in the order in which to try them
};

/// The listening socket of process 0, closed on destruction.
class Listener {
 public:
  /// Binds a free port: on the address or interface that config.interface names; else on loopback alone when `one_host`, else on all IPv4
  /// addresses. Throws Error(start).
  Listener(const ClusterConfig& config, bool one_host);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] const Rendezvous& rendezvous() const noexcept { return rendezvous_; }
  /// Hands the descriptor over.
  [[nodiscard]] int take() noexcept;

 private:
  int descriptor_ = -1;
  Rendezvous rendezvous_;
};

/// A connection to process 0 that has passed the handshake.
struct Connection {
  int descriptor = -1;
  Bytes32 listener_key{};
  Bytes32 connector_key{};
};

/// Tries process 0's addresses in turn (the loopback first when it is on this host), each with a short limit, until config.start_timeout_ms
/// is over. An address may lead to somebody else (bridges of containers exist on every host), who does not prove the secret and is passed
/// over, after half a second of silence in the first round. Throws Error(start) that lists what was tried and how it ended.
Connection connect_to(const Rendezvous& rendezvous, int process, const ClusterConfig& config);

}  // namespace millrace::cluster
