#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace millrace::cluster {

/// 32 bytes: the job's secret, a nonce, a key, or a MAC.
using Bytes32 = std::array<std::byte, 32>;

/// Drawn from the kernel's random source.
Bytes32 random_bytes32();
/// Compares in constant time.
bool equal(const Bytes32& left, const Bytes32& right);

/// HMAC-SHA256 with one key. One thread.
class Hmac {
 public:
  explicit Hmac(const Bytes32& key);
  Hmac(Hmac&&) noexcept;
  Hmac& operator=(Hmac&&) noexcept;
  ~Hmac();
  [[nodiscard]] Bytes32 operator()(std::span<const std::byte> text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A frame of the control link, little endian on the wire:
///   u32 payload bytes, u16 kind, u16 type, u16 from, u16 to, u32 zero, u64 sequence | payload | 32 bytes MAC over all before it.
/// The sequence counts the frames of one direction of one connection from 0, so that none can be dropped, replayed or reordered.
/// Handshake frames have a zero MAC; their payload authenticates itself.
struct FrameHeader {
  std::uint32_t bytes = 0;
  std::uint16_t kind = 0;
  std::uint16_t type = 0;
  std::uint16_t from = 0;
  std::uint16_t to = 0;
  std::uint64_t sequence = 0;
};
inline constexpr std::size_t frame_header_bytes = 24;
inline constexpr std::size_t frame_mac_bytes = 32;
inline constexpr std::uint32_t frame_limit_before_handshake = 256;
inline constexpr std::uint32_t frame_limit = 64u << 20;

enum class FrameKind : std::uint16_t {
  hello,
  challenge,
  proof,
  welcome,
  heartbeat,
  message,
  lost,
  failure,
  failure_taken,
  goodbye,
  agree,
  agreed
};

/// Appends the frame to `out`; without `hmac` the MAC is zero. `header.bytes` is set from the payload's size.
void append_frame(std::vector<std::byte>& out, FrameHeader header, std::span<const std::byte> payload, const Hmac* hmac);
FrameHeader read_header(std::span<const std::byte, frame_header_bytes> bytes);
/// Whether the MAC at the end of a whole frame is correct.
bool authentic(std::span<const std::byte> frame, const Hmac& hmac);

/// The first message of a connecting process.
struct Hello {
  static constexpr std::uint32_t right_version = 0x4d520001;
  std::uint32_t version = right_version;
  std::uint32_t process = 0;
  std::uint32_t pid = 0;
  Bytes32 nonce{};
  std::array<char, 64> host{};
};

/// The handshake proves to both sides that the other knows the secret, without revealing it, and derives a separate key for each
/// direction:
///   connecting: Hello with a nonce;  listening: a nonce and HMAC(secret, "listener" | hello | nonce);  connecting: HMAC(secret,
///   "connector" | …).
struct Handshake {
  Bytes32 listener_proof, connector_proof, listener_key, connector_key;
  Handshake(const Bytes32& secret, const Hello& hello, const Bytes32& listener_nonce);
};

/// A plain struct as bytes.
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span<const char>(text.data(), text.size())); }
inline std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace millrace::cluster
