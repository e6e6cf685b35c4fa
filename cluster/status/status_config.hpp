#pragma once

#include <string>

namespace millrace::cluster {

/// [status]: where process 0 shows what a run does to whoever asks (docs/live.md). Layout keys of a run description, spelled alike.
struct StatusConfig {
  int port = -1;                      ///< -1: nothing is served; 0: a free one, which the run prints
  std::string address = "127.0.0.1";  ///< an IP address of this host; any but loopback wants a token
  std::string token_file;             ///< its text is what clients must know; empty: anybody who reaches the port may look
};

}  // namespace millrace::cluster
