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

/// What a channel carries (sums: of gradients, between ranks that hold the same weights). Each kind has its own MPI communicator,
/// so that messages of different kinds never match each other.
enum class ChannelKind : std::uint8_t { activation, gradient, sums };
inline constexpr int channel_kinds = 3;
const char* to_string(ChannelKind kind);

/// A channel is a FIFO from one rank to another over a ring of `depth` slots; message `sequence` (0, 1, 2, …) is in slot sequence
/// % depth.
struct ChannelSpec {
  /// The same on both sides, unique, 0 … 32767: it is the MPI tag, and MPI guarantees tags up to there. An MPI with a lower limit
  /// (MPI_TAG_UB) is refused when Links are created.
  int id = 0;
  int from_rank = 0;
  int to_rank = 0;
  ChannelKind kind = ChannelKind::activation;
  int depth = 1;
  std::size_t bytes = 0;  ///< largest message; an actual one may be shorter, even empty
  /// The rings are in GPU memory, which MPI can access: the link itself does not access them and keeps the prefixes elsewhere.
  bool on_device = false;
  /// Between processes: a message may be sent in parts of this size (the last one shorter) as they become ready, and its receiver
  /// is notified of each. 0: sent whole.
  std::size_t part_bytes = 0;
};

/// Bytes between two slots of a ring, and of the whole ring that the caller allocates, 64-byte aligned. Each slot starts with the
/// link's prefix of 64 bytes (sequence, actual size, time), which is sent in the same message; the payload after it is 64-byte
/// aligned.
inline constexpr std::size_t slot_payload_offset = 64;
std::size_t slot_stride(const ChannelSpec& spec);
std::size_t ring_bytes(const ChannelSpec& spec);

/// A message in its slot of the receiver's ring, valid until release(sequence).
struct Arrival {
  int channel = 0;
  std::int64_t sequence = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::int64_t producer_finish_ns = 0;  ///< as given to send(), the producer's CLOCK_MONOTONIC; 0 if it ran on another host
};

/// Notifications from links. They are called on the transport thread or, within a process, inside the other side's send() or
/// release(): they must be cheap and must not throw (an exception ends the job). Calls for one channel and kind come in sequence
/// order.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_arrival(const Arrival& arrival) = 0;
  /// Bytes [from, from + part.bytes) of a message are in its slot; on_arrival follows the last part. For channels with
  /// part_bytes.
  virtual void on_part(const Arrival& part, std::size_t from) {
    static_cast<void>(part);
    static_cast<void>(from);
  }
  /// The slot of message `sequence` may be written again, for message sequence + depth: the consumer released it (within a
  /// process), or MPI has sent it. The slots of the first `depth` messages are writable from the start, without a call.
  virtual void on_writable(int channel, std::int64_t sequence) = 0;
};

/// One channel as this process sees it. No call blocks or allocates. Misuse (wrong order, slot still in use, message too long)
/// throws Error(internal).
class Link {
 public:
  virtual ~Link() = default;
  [[nodiscard]] const ChannelSpec& spec() const noexcept { return spec_; }

  /// Sender: where to write message `sequence`. Within a process this is the receiver's ring.
  [[nodiscard]] virtual std::byte* slot(std::int64_t sequence) const = 0;
  /// Sender, one thread at a time, sequences in order: sends the first `bytes` of the slot, which must not be modified until
  /// on_writable.
  virtual void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) = 0;
  /// The same in parts, for channels with part_bytes: begins a message of `bytes`, …
  virtual void begin(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns);
  /// … and declares that its first `bytes` are in its slot: whole parts, or all of it.
  virtual void ready(std::int64_t sequence, std::size_t bytes);
  /// Receiver, one thread at a time, sequences in order: frees the slot for message sequence + depth.
  virtual void release(std::int64_t sequence) = 0;

  /// Payload so far, for the trace and for tests: messages and bytes given to send(), and arrived here; and messages that were
  /// released here. Any thread.
  struct Counters {
    std::int64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0, messages_released = 0;
  };
  [[nodiscard]] virtual Counters counters() const noexcept = 0;

 protected:
  explicit Link(const ChannelSpec& spec) : spec_(spec) {}
  const ChannelSpec spec_;
};

/// This process's ends of a channel. Rings of ends that other processes host stay empty.
struct ChannelEnds {
  ChannelSpec spec;
  std::span<std::byte> receive_ring;  ///< if to_rank is here; within a process the sender writes into it
  std::span<std::byte> send_ring;     ///< if from_rank is here and to_rank is not
  LinkEvents* sender = nullptr;       ///< if from_rank is here
  LinkEvents* receiver = nullptr;     ///< if to_rank is here
};

/// The channels of this process: by pointer if both ranks are here, else over MPI. Channels without an end here are skipped.
/// Several Links may be used one after another on one transport, with close() in between.
class Links {
 public:
  /// `transport` may be null if the job has one process. `piece_bytes`: larger MPI messages are sent in chunks (MPI's counts have
  /// 31 bits). Throws Error(internal) for duplicate ids, rings that are too small or misaligned, and missing events. Receives are
  /// posted when it returns.
  Links(const Topology& topology, Transport* transport, std::span<const ChannelEnds> channels,
        std::size_t piece_bytes = default_piece_bytes);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Throws Error(internal) if the channel has no end here.
  [[nodiscard]] Link& link(int channel) const;

  /// Collective over all processes, after every message has arrived: cancels the posted receives, so that ids can be reused.
  void close();

  static constexpr std::size_t default_piece_bytes = std::size_t{1} << 30;

 private:
  std::vector<std::unique_ptr<Link>> local_;
  std::unique_ptr<RemoteLinks> remote_;
  std::vector<Link*> by_id_;
  Transport* transport_;
};

}  // namespace millrace::cluster
