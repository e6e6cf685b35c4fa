#pragma once

#include <string>

namespace millrace::cluster {

/// Settings of the room `cluster`; none changes a number. Those down to `interface` are layout keys of a run description, spelled alike
/// (`cluster.heartbeat_ms`, …). The three behind it, on polling, are no keys: who makes a Transport sets them.
struct ClusterConfig {
  int heartbeat_ms = 100;            ///< between two heartbeats of the control link, both directions
  int timeout_ms = 1000;             ///< a process silent for longer is lost; 0 never (off by itself while a debugger traces a process)
  int stall_ms = 1500;               ///< nothing moves for so long: a warning tells who waits for whom; 0 none
  int start_timeout_ms = 60000;      ///< for all processes to join the control link and to agree
  std::string interface;             ///< where process 0 listens: an interface ("eth0") or an address ("10.0.0.1"); empty: found by itself
  int spin_microseconds = -1;        ///< how long the transport thread polls without pause after activity; -1: by the cores there are
  int nap_limit_microseconds = 200;  ///< the longest pause between two polls while receives are posted
  int long_nap_microseconds = 2000;  ///< … and all workers of the process compute, or all processes are on one host
};

}  // namespace millrace::cluster
