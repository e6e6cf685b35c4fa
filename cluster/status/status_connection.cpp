#include "cluster/status/status_connection.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace millrace::cluster {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr auto linger_limit = std::chrono::milliseconds(500);
constexpr std::size_t linger_bytes = 65536;  // what a client may still send after its response before it is disconnected

// The page is self-contained and sends requests only to us; an address with a token in it is never leaked.
constexpr const char* safety =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

std::string head_of(const StatusAnswer& answer) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}{}\r\n", answer.code,
                     std::string(http::obsolete_reason(static_cast<http::status>(answer.code))), answer.content_type, answer.text->size(),
                     safety, answer.more_headers);
}

}  // namespace

StatusAnswer status_error(int code, const std::string& text, const std::string& more_headers) {
  StatusAnswer answer;
  answer.code = code;
  answer.text = std::make_shared<const std::string>(text + "\n");
  answer.more_headers = more_headers;
  return answer;
}

StatusConnection::StatusConnection(asio::ip::tcp::socket socket, const StatusLimits& limits, Handler handler, std::function<void()> ended)
    : limits_(limits), handler_(std::move(handler)), ended_(std::move(ended)), stream_(std::move(socket)) {
  parser_.header_limit(std::numeric_limits<std::uint32_t>::max());  // the amount that is read is limited below
  error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

StatusConnection::~StatusConnection() { ended_(); }

// The header is read completely before it is parsed, since Beast 1.74 counts its limit anew for what it has not parsed yet.
void StatusConnection::read() {
  stream_.expires_after(limits_.request);
  asio::async_read_until(stream_, asio::dynamic_buffer(input_, limits_.header_bytes), "\r\n\r\n",
                         [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                           if (error == asio::error::not_found) return self->answer(self->too_long(), false);
                           if (!error) self->parse(bytes);
                         });  // else it sent an incomplete request or nothing: closed, by us or by the client
}

StatusAnswer StatusConnection::too_long() const {
  return status_error(431, fmt::format("the request's header has more than {} bytes", limits_.header_bytes));
}

void StatusConnection::parse(std::size_t bytes) {
  error_code error;
  parser_.put(asio::buffer(input_, bytes), error);
  const bool more = error == http::error::need_more;  // it has a body, which is not read
  if (error && !more) return answer(status_error(400, "this is no HTTP request: " + error.message()), false);
  const auto length = parser_.content_length();
  if (more || !parser_.is_header_done() || parser_.chunked() || (length && *length > 0) || input_.size() > bytes)
    return answer(status_error(413, "a request has no body here, and is alone on its connection"), false);
  answer(handler_(parser_.get()), parser_.get().method() == http::verb::head);
}

void StatusConnection::answer(StatusAnswer answer, bool head_only) {
  answer_ = std::move(answer);
  head_ = head_of(answer_);
  const std::array<asio::const_buffer, 2> parts{asio::buffer(head_), head_only ? asio::const_buffer() : asio::buffer(*answer_.text)};
  stream_.expires_after(limits_.answer);
  asio::async_write(stream_, parts, [self = shared_from_this()](const error_code& error, std::size_t) {
    if (error) return;
    if (self->answer_.code < 300) return;  // the whole request was read: it can be closed
    error_code ignored;
    self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    self->stream_.expires_after(linger_limit);
    self->linger(0);
  });
}

/// If the connection were closed while the client still sends, it might see a broken connection and never read its response, so
/// its data are drained briefly.
void StatusConnection::linger(std::size_t seen) {
  input_.resize(limits_.header_bytes);
  stream_.async_read_some(asio::buffer(input_), [self = shared_from_this(), seen](const error_code& error, std::size_t bytes) {
    if (!error && seen + bytes < linger_bytes) self->linger(seen + bytes);
  });
}

}  // namespace millrace::cluster
