#pragma once

#include <string>

namespace millrace::cluster {

/// Settings of the folder `cluster`; none of them affects numbers. Those up to `interface` are layout keys of a run description
/// with the same names (`cluster.heartbeat_ms`, …). The three after it concern polling and are not keys: the creator of a
/// Transport sets them.
struct ClusterConfig {
  int heartbeat_ms = 100;  ///< interval between two heartbeats of the control link, in both directions
  /// a process that is silent for longer is lost; 0: never (disabled automatically while a debugger traces a process)
  int timeout_ms = 1000;
  int stall_ms = 1500;           ///< after this time without progress a warning says which rank waits for which; 0: no warning
  int start_timeout_ms = 60000;  ///< time for all processes to join the control link and to agree
  std::string interface;         ///< where process 0 listens: an interface ("eth0") or an address ("10.0.0.1"); empty: chosen automatically
  int spin_microseconds = -1;    ///< how long the transport thread polls without pause after activity; -1: chosen by the number of cores
  int nap_limit_microseconds = 200;  ///< the longest sleep between two polls while receives are posted
  int long_nap_microseconds = 2000;  ///< … if all workers of the process compute, or all processes are on one host
};

}  // namespace millrace::cluster
