#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/status/status_config.hpp"

namespace millrace::cluster {

/// The content served under one path.
struct StatusPage {
  std::string path;          ///< "/status"
  std::string content_type;  ///< "application/json"
  /// Called on the server's thread, one call at a time. An exception gives a response 500.
  std::function<std::string()> text;
  /// A text is reused for this long, so that the number of requests does not determine how often it is built.
  std::chrono::milliseconds max_age{100};
  /// For an action: POST, executed each time; the response is 202, or 409 for an exception of `text`. Refused for requests from
  /// other sites' pages.
  bool order = false;
};

/// The server's limits on resources for its clients.
struct StatusLimits {
  std::size_t connections = 16;             ///< at a time; more wait in the system's queue
  std::size_t header_bytes = 8192;          ///< of a request, including its first line
  std::chrono::milliseconds request{5000};  ///< from the connection to the end of the request's header
  std::chrono::milliseconds answer{5000};   ///< from then until the client has read everything
  double connections_a_second = 10;         ///< sustained rate; the rest wait
  double burst = 50;                        ///< number of connections after a pause without delay
};

/// A small HTTP/1.1 server: GET and HEAD of a few pages and POST of a few actions, one request per connection. It is independent
/// of its content. It has one thread of its own, at the lowest priority, and does not use the control link's, since requests must
/// not delay a heartbeat.
///
/// Without a token it answers only requests whose Host is "localhost" or an IP address, so that no web site's script can read it
/// under a host name of its own. With a token, each request needs "Authorization: Bearer TOKEN" or "?token=TOKEN".
class StatusServer {
 public:
  /// Binds immediately, so that errors are reported before the run begins; nothing is answered until start(). An empty `token`
  /// means none is required. Errors: Error(config) for an invalid address, or for one other than loopback without a token;
  /// Error(start) for a port in use.
  StatusServer(const StatusConfig& config, const std::string& token, const StatusLimits& limits = {});
  /// Closes all connections.
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// Called once. Everything that the pages' functions use must live until stop().
  void start(std::vector<StatusPage> pages);
  /// No page's function is called afterwards.
  void stop();

  [[nodiscard]] int port() const noexcept;
  /// "http://127.0.0.1:34567/", without the token.
  [[nodiscard]] std::string url() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
