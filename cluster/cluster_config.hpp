#pragma once

#include <string>

namespace millrace::cluster {

/// Settings of the room `cluster`, as the run description spells them (`cluster.heartbeat_ms`, …). All are layout keys: none changes a
/// number.
struct ClusterConfig {
  int heartbeat_ms = 100;            ///< between two heartbeats of the control link, both directions
  int timeout_ms = 1000;             ///< a process silent for longer is lost; 0 never (off by itself while a debugger traces a process)
  int start_timeout_ms = 60000;      ///< for all processes to join the control link and to agree
  std::string interface;             ///< where process 0 listens: an interface ("eth0") or an address ("10.0.0.1"); empty: found by itself
  int spin_microseconds = -1;        ///< how long the transport thread polls without pause after activity; -1: by the cores there are
  int nap_limit_microseconds = 200;  ///< the longest pause between two polls while receives are posted
};

}  // namespace millrace::cluster
