#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// <utility> must precede it: Boost 1.74 lacks the include for std::exchange.
#include <boost/asio.hpp>

#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {

/// Limit of bytes that wait for a process to read them, or for the control thread; a process that exceeds it is lost.
inline constexpr std::size_t control_queue_limit = std::size_t{4} << 30;

/// One connection of the control link, on the Asio thread: splits the stream into frames, checks length, MAC and sequence, and
/// writes queued frames in order. Buffers keep their capacity: in a steady stream of frames our code allocates nothing.
class ControlSession : public std::enable_shared_from_this<ControlSession> {
 public:
  using Clock = std::chrono::steady_clock;
  /// Receives a complete, authentic frame. The payload is valid during the call.
  using OnFrame = std::function<void(ControlSession&, const FrameHeader&, std::span<const std::byte>)>;
  /// Called once, unless abandon() was called first: the peer is gone, or violated the protocol.
  using OnEnd = std::function<void(ControlSession&, const std::string& reason)>;

  /// The session ends if the peer has more than `queue_limit` unread bytes.
  ControlSession(boost::asio::ip::tcp::socket socket, std::size_t queue_limit, OnFrame on_frame, OnEnd on_end);

  void start() { read_header_then_rest(); }
  /// From now on frames have a MAC and may be long.
  void authenticate(const Bytes32& send_key, const Bytes32& receive_key);
  void send(FrameHeader header, std::span<const std::byte> payload);
  /// Whether frames are queued behind those being written, because the peer does not read.
  [[nodiscard]] bool is_behind() const noexcept { return !queued_.empty(); }
  /// Closes immediately, without calling OnEnd.
  void abandon();
  /// Ends the session and calls OnEnd(reason).
  void end(const std::string& reason);

  // What the link knows about the peer.
  int process = -1;
  pid_t pid = 0;
  std::string host;
  bool said_goodbye = false;
  bool traced = false;  // a debugger traces it, so silence means nothing
  const Clock::time_point begun = Clock::now();
  Clock::time_point last_heard = begun;
  std::optional<Handshake> handshake;  // on the listening side, until the proof has arrived

 private:
  void read_header_then_rest();
  void read_rest();
  void take_frame();
  void write_next();
  void end_later(std::string reason);

  boost::asio::ip::tcp::socket socket_;
  const std::size_t queue_limit_;
  OnFrame on_frame_;
  OnEnd on_end_;
  std::optional<Hmac> send_mac_, receive_mac_;
  std::uint64_t sent_ = 0, received_ = 0;
  std::vector<std::byte> frame_;             // being read
  std::vector<std::byte> queued_, writing_;  // whole frames
  bool write_under_way_ = false;
  bool ends_ = false, ended_ = false;
};

}  // namespace millrace::cluster
