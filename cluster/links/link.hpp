#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cluster/topology.hpp"

namespace millrace::cluster {

class Transport;
class RemoteLinks;

/// What a channel carries (sums: of gradients, between ranks that hold the same weights); each kind has an MPI communicator of its own, so
/// that classes never match each other.
enum class ChannelKind : std::uint8_t { activation, gradient, sums };
inline constexpr int channel_kinds = 3;
const char* to_string(ChannelKind kind);

/// A channel is a FIFO from one rank to another over a ring of `depth` slots; message `sequence` (0, 1, 2, …) lives in slot sequence %
/// depth.
struct ChannelSpec {
  /// The same on both sides, unique, 0 … 32767: it is the MPI tag, and MPI promises tags up to there. An MPI that has fewer (MPI_TAG_UB)
  /// is refused when Links are made.
  int id = 0;
  int from_rank = 0;
  int to_rank = 0;
  ChannelKind kind = ChannelKind::activation;
  int depth = 1;
  std::size_t bytes = 0;  ///< largest message; an actual one may be shorter, 0 included
  /// The rings lie in memory of a GPU, which MPI reaches: the link touches nothing of them itself and keeps the prefixes elsewhere.
  bool on_device = false;
  /// Between processes: a message may be handed over in parts of so many bytes (the last one shorter), as they come, and its receiver hears
  /// of each. 0: whole.
  std::size_t part_bytes = 0;
};

/// Bytes between two slots of a ring, and of the whole ring that the caller allocates, 64-byte aligned. Each slot starts with a 64-byte
/// prefix of the link (sequence, actual size, time), which travels in the same message; the payload behind it is 64-byte aligned.
inline constexpr std::size_t slot_payload_offset = 64;
std::size_t slot_stride(const ChannelSpec& spec);
std::size_t ring_bytes(const ChannelSpec& spec);

/// A message that lies in its slot of the receiver's ring until release(sequence).
struct Arrival {
  int channel = 0;
  std::int64_t sequence = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::int64_t producer_finish_ns = 0;  ///< as given to send(), the producer's CLOCK_MONOTONIC; 0 when it ran on another host
};

/// Told by links. Calls come from the transport thread or, in process, from inside the other side's send() or release(): keep them cheap,
/// do not throw (an exception ends the job). Calls of one channel and kind come in sequence order.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_arrival(const Arrival& arrival) = 0;
  /// Bytes [from, from + part.bytes) of a message lie in its slot; on_arrival follows the last part. Of channels with part_bytes.
  virtual void on_part(const Arrival& part, std::size_t from) {
    static_cast<void>(part);
    static_cast<void>(from);
  }
  /// The slot of message `sequence` may be written again, by message sequence + depth: the consumer released it (in process), or MPI has
  /// sent it. Slots of the first `depth` messages are writable from the start, without a call.
  virtual void on_writable(int channel, std::int64_t sequence) = 0;
};

/// One channel as this process sees it. No call blocks or allocates. Misuse (out of order, slot still in use, too long) throws
/// Error(internal).
class Link {
 public:
  virtual ~Link() = default;
  [[nodiscard]] const ChannelSpec& spec() const noexcept { return spec_; }

  /// Sender: where to write message `sequence`. In process it is the receiver's ring.
  [[nodiscard]] virtual std::byte* slot(std::int64_t sequence) const = 0;
  /// Sender, one thread at a time, sequences in order: hands over the first `bytes` of the slot, which is not touched until on_writable.
  virtual void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) = 0;
  /// The same in parts, of channels with part_bytes: a message of `bytes` begins, …
  virtual void begin(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns);
  /// … and its first `bytes` are in its slot: whole parts, or all of it.
  virtual void ready(std::int64_t sequence, std::size_t bytes);
  /// Receiver, one thread at a time, sequences in order: the slot is free for message sequence + depth.
  virtual void release(std::int64_t sequence) = 0;

  /// Payload that has passed, for the trace and for tests: messages and bytes handed to send(), and arrived here; and the messages that
  /// were released here. Any thread.
  struct Counters {
    std::int64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0, messages_released = 0;
  };
  [[nodiscard]] virtual Counters counters() const noexcept = 0;

 protected:
  explicit Link(const ChannelSpec& spec) : spec_(spec) {}
  const ChannelSpec spec_;
};

/// What a process brings to a channel. Rings of ends that other processes host stay empty.
struct ChannelEnds {
  ChannelSpec spec;
  std::span<std::byte> receive_ring;  ///< when to_rank is here; in process the sender writes into it
  std::span<std::byte> send_ring;     ///< when from_rank is here and to_rank is not
  LinkEvents* sender = nullptr;       ///< when from_rank is here
  LinkEvents* receiver = nullptr;     ///< when to_rank is here
};

/// The channels of this process: in process where both ranks are here, else over MPI. Channels with no end here are skipped.
/// Several Links may follow one another on one transport, with close() between them.
class Links {
 public:
  /// `transport` may be null when the job has one process. `piece_bytes`: MPI messages beyond it go in pieces (its counts are 31 bits).
  /// Throws Error(internal) on ids used twice, rings too small or misaligned, missing events. Receives are posted when it returns.
  Links(const Topology& topology, Transport* transport, std::span<const ChannelEnds> channels,
        std::size_t piece_bytes = default_piece_bytes);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Throws Error(internal) when the channel has no end here.
  [[nodiscard]] Link& link(int channel) const;

  /// Collective over all processes, when every message sent has arrived: takes back the posted receives, so that ids may be used anew.
  void close();

  static constexpr std::size_t default_piece_bytes = std::size_t{1} << 30;

 private:
  std::vector<std::unique_ptr<Link>> local_;
  std::unique_ptr<RemoteLinks> remote_;
  std::vector<Link*> by_id_;
  Transport* transport_;
};

}  // namespace millrace::cluster
