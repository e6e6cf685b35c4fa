#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cluster/links/link.hpp"
#include "cluster/links/mpi_world.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// The local end of a channel whose other end is in another process. `postable_` counts the messages that may be posted; other
/// threads increase it, the transport thread follows. Derived classes decide how messages are divided into MPI messages: long
/// ones are sent in chunks (mpi_chunked.cpp), several short ones together (mpi_coalesced.cpp).
class MpiEnd : public Link {
 public:
  MpiEnd(const ChannelSpec& spec, std::byte* ring, Transport& transport, int peer, std::size_t requests);

  std::byte* slot(std::int64_t sequence) const override;

  // -- the transport thread's ---------------------------------------------------------

  /// Posts what may be posted; returns whether there was anything.
  virtual bool post() = 0;
  /// A long message is in transfer, which needs polling.
  [[nodiscard]] virtual bool transferring() const { return false; }
  [[nodiscard]] virtual bool sends() const = 0;
  [[nodiscard]] bool outstanding() const { return tested_ < posted_; }
  /// What the unfinished head request means for the transport's sleeps.
  [[nodiscard]] Activity while_waiting() const;
  /// The oldest request that has not ended: those of a channel are tested in order.
  [[nodiscard]] MPI_Request& head() { return request(tested_); }
  /// The head request has ended.
  void advance(const MPI_Status& status);
  /// Tests only the head: cheap if it has ended, else one turn of MPI's progress engine.
  bool advance_if_ended();
  /// To be called when nothing more has ended for now: rings a sender that sleeps until its slots are free.
  void ring_sender();
  void take_back();

 protected:
  /// Request `number` has ended, counted since the beginning.
  virtual void request_ended(std::int64_t number, const MPI_Status& status) = 0;
  [[nodiscard]] MPI_Request& request(std::int64_t number) { return requests_[place(number)]; }
  /// The next request.
  void post_send(const std::byte* data, int bytes);
  void post_receive(std::byte* data, int bytes);

  /// Only one thread at a time writes. A plain load and store is therefore enough, and avoids an atomic addition, which would wait
  /// for MPI's pending stores.
  void count(std::uint64_t bytes) noexcept {
    bytes_.store(bytes_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

  // -- misuse of a link; the message names the channel
  void check_send(std::int64_t sequence, std::size_t bytes) const;
  void check_release(std::int64_t sequence) const;
  [[noreturn]] void refuse(const char* call) const;

  /// The place of a message's prefix: before its payload, or outside of a ring that we cannot access.
  [[nodiscard]] std::byte* prefix_of(std::int64_t sequence);

  std::byte* const ring_;
  Transport& transport_;
  std::atomic<std::int64_t> postable_{0};
  std::atomic<std::int64_t> ended_{0};  ///< messages that arrived, or that were sent completely
  std::atomic<std::int64_t> bytes_{0};
  std::int64_t posted_ = 0, tested_ = 0;  ///< requests; used by the transport thread

 private:
  [[nodiscard]] std::size_t place(std::int64_t number) const {
    return static_cast<std::size_t>(number % static_cast<std::int64_t>(requests_.size()));
  }

  const MPI_Comm communicator_;
  const int peer_;
  std::vector<std::array<std::byte, 64>> prefixes_;  // for a ring on a device, by slot
  std::vector<MPI_Request> requests_;
  std::vector<int> sizes_;  // bytes of each of a sender's requests
  int unsignalled_ = 0;     // bytes of long messages received since the sender's doorbell was last rung
};

/// The common parts of both senders, when a message is given to them, and of both receivers, when a slot is released.
class MpiSender : public MpiEnd {
 public:
  MpiSender(const ChannelEnds& ends, Transport& transport, int peer, std::size_t requests);
  void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override;
  void release(std::int64_t) final { refuse("release on the sending side"); }
  [[nodiscard]] bool sends() const final { return true; }
  [[nodiscard]] Counters counters() const noexcept final;

 protected:
  /// Accepts a message of these bytes and writes its prefix.
  void accept(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns);
  /// All messages before `end` have been sent.
  void sent_up_to(std::int64_t end);

 private:
  LinkEvents* const events_;
};

class MpiReceiver : public MpiEnd {
 public:
  MpiReceiver(const ChannelEnds& ends, Transport& transport, int peer, std::size_t requests, bool same_clock);
  void send(std::int64_t, std::size_t, std::int64_t) final { refuse("send on the receiving side"); }
  void release(std::int64_t sequence) final;
  [[nodiscard]] bool sends() const final { return false; }
  [[nodiscard]] Counters counters() const noexcept final;

 protected:
  /// Bytes of message `sequence` from `from` on are in its slot.
  void part_arrived(std::int64_t sequence, std::size_t from, std::size_t bytes);
  /// Message `sequence` is in its slot.
  void arrived(std::int64_t sequence, std::uint64_t bytes, std::int64_t producer_finish_ns);

 private:
  LinkEvents* const events_;
  const bool same_clock_;
};

/// How a process's end of a channel reaches its peer.
struct MpiRoute {
  int peer = 0;             // the other process
  bool same_clock = false;  // the peer is on this host
};

/// Whether the slots of a channel are short enough to be sent several at a time; both sides must get the same answer.
[[nodiscard]] bool goes_in_batches(const ChannelSpec& spec, std::size_t piece_bytes);
std::unique_ptr<MpiEnd> make_piece_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends,
                                       std::size_t piece_bytes);
std::unique_ptr<MpiEnd> make_batch_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends);

}  // namespace millrace::cluster
