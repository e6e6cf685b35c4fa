#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/status/status_config.hpp"

namespace millrace::cluster {

/// What is served under one path.
struct StatusPage {
  std::string path;          ///< "/status"
  std::string content_type;  ///< "application/json"
  /// Called on the server's thread, one call at a time. What it throws is an answer 500.
  std::function<std::string()> text;
  /// A text is shown again for so long: how often it is made does not depend on how often it is asked for.
  std::chrono::milliseconds max_age{100};
  /// Something is done: POST, each time, and the answer is 202, or 409 for what `text` throws. Not for what other sites' pages ask.
  bool order = false;
};

/// What one server spends on its clients, whatever they do.
struct StatusLimits {
  std::size_t connections = 16;             ///< at a time; more wait in the system's queue
  std::size_t header_bytes = 8192;          ///< of a request, its first line included
  std::chrono::milliseconds request{5000};  ///< from the connection to the end of the request's header
  std::chrono::milliseconds answer{5000};   ///< from there until the client has read all
  double connections_a_second = 10;         ///< beyond a burst; the rest wait
  double burst = 50;                        ///< connections at once after a pause
};

/// A small HTTP/1.1 server: GET and HEAD of a few pages and POST of a few orders, one request a connection. It knows nothing of what it
/// shows. It has one thread of its own, of the lowest priority: not the control link's, since what a client asks for must not delay a
/// heartbeat.
///
/// Without a token it answers only requests whose Host is "localhost" or an IP address, so that no web site's script can read it under a
/// name of its own. With one, each request needs "Authorization: Bearer TOKEN" or "?token=TOKEN".
class StatusServer {
 public:
  /// Binds at once, so that what cannot be is told before the run begins; nothing is answered until start(). `token` empty: none is wanted.
  /// Errors: Error(config) for an address that is none, or for one other than loopback without a token; Error(start) for a port that is
  /// taken.
  StatusServer(const StatusConfig& config, const std::string& token, const StatusLimits& limits = {});
  /// Cuts all connections.
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// Once. What the pages' functions use must live until stop().
  void start(std::vector<StatusPage> pages);
  /// No function of a page is called afterwards.
  void stop();

  [[nodiscard]] int port() const noexcept;
  /// "http://127.0.0.1:34567/", without the token.
  [[nodiscard]] std::string url() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
