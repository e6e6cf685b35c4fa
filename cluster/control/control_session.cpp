#include "cluster/control/control_session.hpp"

#include <fmt/format.h>

namespace millrace::cluster {

namespace asio = boost::asio;
using boost::system::error_code;

ControlSession::ControlSession(asio::ip::tcp::socket socket, std::size_t queue_limit, OnFrame on_frame, OnEnd on_end)
    : socket_(std::move(socket)), queue_limit_(queue_limit), on_frame_(std::move(on_frame)), on_end_(std::move(on_end)) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void ControlSession::authenticate(const Bytes32& send_key, const Bytes32& receive_key) {
  send_mac_.emplace(send_key);
  receive_mac_.emplace(receive_key);
  sent_ = received_ = 0;
}

void ControlSession::read_header_then_rest() {
  frame_.resize(frame_header_bytes);
  asio::async_read(socket_, asio::buffer(frame_), [self = shared_from_this()](const error_code& error, std::size_t) {
    if (error) return self->end(error == asio::error::eof ? "its connection closed" : "its connection broke: " + error.message());
    self->read_rest();
  });
}

void ControlSession::read_rest() {
  const FrameHeader header = read_header(std::span<const std::byte>(frame_).first<frame_header_bytes>());
  const std::uint32_t limit = receive_mac_ ? frame_limit : frame_limit_before_handshake;
  if (header.bytes > limit) return end(fmt::format("it sent a frame of {} bytes, the limit is {}", header.bytes, limit));
  frame_.resize(frame_header_bytes + header.bytes + frame_mac_bytes);
  asio::async_read(socket_, asio::buffer(frame_.data() + frame_header_bytes, frame_.size() - frame_header_bytes),
                   [self = shared_from_this()](const error_code& error, std::size_t) {
                     if (error)
                       return self->end(error == asio::error::eof ? "its connection closed" : "its connection broke: " + error.message());
                     self->take_frame();
                   });
}

void ControlSession::take_frame() {
  if (ended_) return;
  const FrameHeader header = read_header(std::span<const std::byte>(frame_).first<frame_header_bytes>());
  if (receive_mac_) {
    if (!authentic(frame_, *receive_mac_)) return end("it sent a frame that is not authentic");
    if (header.sequence != received_) return end(fmt::format("it sent frame {}, expected {}", header.sequence, received_));
    ++received_;
  }
  last_heard = Clock::now();
  on_frame_(*this, header, std::span<const std::byte>(frame_).subspan(frame_header_bytes, header.bytes));
  if (!ended_) read_header_then_rest();
}

void ControlSession::send(FrameHeader header, std::span<const std::byte> payload) {
  if (ended_) return;
  if (queued_.size() + payload.size() > queue_limit_)
    return end_later(fmt::format("it does not read: {} bytes wait for it", queued_.size()));
  header.sequence = send_mac_ ? sent_++ : 0;
  append_frame(queued_, header, payload, send_mac_ ? &*send_mac_ : nullptr);
  if (!write_under_way_) write_next();
}

void ControlSession::write_next() {
  if (queued_.empty()) return;
  write_under_way_ = true;
  writing_.clear();
  std::swap(writing_, queued_);
  asio::async_write(socket_, asio::buffer(writing_), [self = shared_from_this()](const error_code& error, std::size_t) {
    self->write_under_way_ = false;
    if (self->ended_) return;
    if (error) return self->end("its connection broke: " + error.message());
    self->write_next();
  });
}

/// Deferred, since the caller may be iterating over all sessions.
void ControlSession::end_later(std::string reason) {
  if (std::exchange(ends_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this(), reason = std::move(reason)] { self->end(reason); });
}

void ControlSession::abandon() {
  ended_ = true;
  error_code ignored;
  socket_.close(ignored);
}

void ControlSession::end(const std::string& reason) {
  if (ended_) return;
  abandon();
  on_end_(*this, reason);
}

}  // namespace millrace::cluster
