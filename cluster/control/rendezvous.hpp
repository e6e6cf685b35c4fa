#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cluster/cluster_config.hpp"
#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {

/// What the other processes need to find process 0 and to authenticate. Broadcast over MPI at start; never in a command line, environment
/// or log.
struct Rendezvous {
  Bytes32 secret{};
  std::uint32_t pid = 0;  ///< of process 0
  std::uint16_t port = 0;
  std::uint16_t addresses = 0;
  std::array<char, 64> host{};                     ///< of process 0
  std::array<std::array<char, 48>, 16> address{};  ///< in the order in which they are tried
};

/// The listening socket of process 0; the destructor closes it.
class Listener {
 public:
  /// Binds a free port: on the address or interface that config.interface names; if it is empty, on the loopback alone when `one_host`,
  /// else on all IPv4 addresses. Throws Error(start).
  Listener(const ClusterConfig& config, bool one_host);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] const Rendezvous& rendezvous() const noexcept;
  [[nodiscard]] bool is_v6() const noexcept;
  /// Gives the descriptor away: the caller closes it.
  [[nodiscard]] int release();

 private:
  struct State;  // Asio's types stay out of this header, which the actors include
  std::unique_ptr<State> state_;
};

/// A connection to process 0 that has passed the handshake. The descriptor belongs to the caller.
struct Connection {
  int descriptor = -1;
  bool v6 = false;
  Bytes32 listener_key{};
  Bytes32 connector_key{};
};

/// Tries process 0's addresses in turn (the loopback first when it is on this host), each with a short limit, until config.start_timeout_ms
/// is over. An address may lead to another listener (bridges of containers exist on every host), which does not prove the secret and is
/// skipped, after half a second of silence in the first round. Throws Error(start) that lists what was tried and how it ended.
Connection connect_to(const Rendezvous& rendezvous, int process, const ClusterConfig& config);

}  // namespace millrace::cluster
