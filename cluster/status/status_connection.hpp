#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

// <utility> must precede it: Boost 1.74 lacks the include for std::exchange.
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "cluster/status/status_server.hpp"

namespace millrace::cluster {

/// A response.
struct StatusAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> text;  ///< shared by all clients to which it is being sent
  std::string more_headers;                 ///< whole lines
};
/// An error response: a line of text.
[[nodiscard]] StatusAnswer status_error(int code, const std::string& text, const std::string& more_headers = "");

/// One connection of the status server, on its thread: reads a request's header within its limits, writes the response, and
/// closes. Lives as long as an operation is pending.
class StatusConnection : public std::enable_shared_from_this<StatusConnection> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::empty_body>;
  using Handler = std::function<StatusAnswer(const Request&)>;
  /// `ended` is called when the connection is gone.
  StatusConnection(boost::asio::ip::tcp::socket socket, const StatusLimits& limits, Handler handler, std::function<void()> ended);
  ~StatusConnection();
  StatusConnection(const StatusConnection&) = delete;
  StatusConnection& operator=(const StatusConnection&) = delete;

  void read();

 private:
  void parse(std::size_t bytes);
  [[nodiscard]] StatusAnswer too_long() const;
  void answer(StatusAnswer answer, bool head_only);
  void linger(std::size_t seen);

  const StatusLimits& limits_;
  Handler handler_;
  std::function<void()> ended_;
  boost::beast::tcp_stream stream_;
  std::string input_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  std::string head_;
  StatusAnswer answer_;
};

}  // namespace millrace::cluster
