#pragma once

#include <string>

namespace millrace::cluster {

/// [status]: where process 0 publishes the state of a run (docs/live.md). Layout keys of a run description with the same names.
struct StatusConfig {
  int port = -1;                      ///< -1: no server; 0: a free port, which the run prints
  std::string address = "127.0.0.1";  ///< an IP address of this host; any but loopback requires a token
  std::string token_file;             ///< file with the token that clients must present; empty: no token is required
};

}  // namespace millrace::cluster
