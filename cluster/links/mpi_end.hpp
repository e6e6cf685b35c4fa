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

/// The end of a channel that is here, when the other is in another process. `wanted_` counts the messages that may be posted; other threads
/// raise it, the transport thread follows. How messages are cut into MPI's is the derived classes': a long one goes in pieces
/// (mpi_pieces.cpp), short ones go several at a time (mpi_batches.cpp).
class MpiEnd : public Link {
 public:
  MpiEnd(const ChannelSpec& spec, std::byte* ring, Transport& transport, int peer, std::size_t requests);

  std::byte* slot(std::int64_t sequence) const override;

  // -- the transport thread's ---------------------------------------------------------

  /// Posts what may be posted; true when something was.
  virtual bool post() = 0;
  /// A long message is moving, which needs polls.
  [[nodiscard]] virtual bool transferring() const { return false; }
  [[nodiscard]] virtual bool sends() const = 0;
  [[nodiscard]] bool outstanding() const { return tested_ < posted_; }
  /// What it means for the transport's naps that the head has not ended.
  [[nodiscard]] Activity while_waiting() const;
  /// The oldest request that has not ended: those of a channel are looked at in order.
  [[nodiscard]] MPI_Request& head() { return request(tested_); }
  /// The head has ended.
  void advance(const MPI_Status& status);
  /// Looks at the head alone: cheap when it has ended, one turn of MPI's progress when not.
  bool advance_if_ended();
  /// Nothing more has ended for now: a sender that naps until its slots are free hears of those that are.
  void ring_sender();
  void take_back();

 protected:
  /// Request `number`, counted since the beginning.
  virtual void request_ended(std::int64_t number, const MPI_Status& status) = 0;
  [[nodiscard]] MPI_Request& request(std::int64_t number) { return requests_[place(number)]; }
  /// The next request.
  void post_send(const std::byte* data, int bytes);
  void post_receive(std::byte* data, int bytes);

  /// One thread at a time does: no locked addition, which would wait for MPI's stores to leave.
  void count(std::uint64_t bytes) noexcept {
    bytes_.store(bytes_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

  // -- misuse of a link, told by whom it concerns
  void check_send(std::int64_t sequence, std::size_t bytes) const;
  void check_release(std::int64_t sequence) const;
  [[noreturn]] void refuse(const char* call) const;

  /// Where the prefix of a message is: before its payload, or apart from a ring that we cannot touch.
  [[nodiscard]] std::byte* prefix_of(std::int64_t sequence);

  std::byte* const ring_;
  Transport& transport_;
  std::atomic<std::int64_t> wanted_{0};
  std::atomic<std::int64_t> ended_{0};  ///< messages that arrived, or that were sent to the end
  std::atomic<std::int64_t> bytes_{0};
  std::int64_t posted_ = 0, tested_ = 0;  ///< requests; the transport thread's

 private:
  [[nodiscard]] std::size_t place(std::int64_t number) const {
    return static_cast<std::size_t>(number % static_cast<std::int64_t>(requests_.size()));
  }

  const MPI_Comm communicator_;
  const int peer_;
  std::vector<std::array<std::byte, 64>> prefixes_;  // of a ring on a device, by slot
  std::vector<MPI_Request> requests_;
  std::vector<int> sizes_;  // bytes that each of a sender's requests sends
  int unheard_ = 0;         // bytes of longer messages received since their sender was last rung
};

/// What both senders do when a message is handed to them, and both receivers when a slot is given back.
class MpiSender : public MpiEnd {
 public:
  MpiSender(const ChannelEnds& ends, Transport& transport, int peer, std::size_t requests);
  void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override;
  void release(std::int64_t) final { refuse("release on the sending side"); }
  [[nodiscard]] bool sends() const final { return true; }
  [[nodiscard]] Counters counters() const noexcept final;

 protected:
  /// Takes over a message of these bytes and writes its prefix.
  void accept(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns);
  /// All messages before `end` have left.
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
  /// Bytes of message `sequence` from `from` on lie in its slot.
  void part_arrived(std::int64_t sequence, std::size_t from, std::size_t bytes);
  /// Message `sequence` lies in its slot.
  void arrived(std::int64_t sequence, std::uint64_t bytes, std::int64_t producer_finish_ns);

 private:
  LinkEvents* const events_;
  const bool same_clock_;
};

/// Where a process's end of a channel finds its peer.
struct MpiRoute {
  int peer = 0;             // the other process
  bool same_clock = false;  // it is on this host
};

/// Whether the slots of a channel are short enough to travel several at a time; both sides must come to the same answer.
[[nodiscard]] bool goes_in_batches(const ChannelSpec& spec, std::size_t piece_bytes);
std::unique_ptr<MpiEnd> make_piece_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends,
                                       std::size_t piece_bytes);
std::unique_ptr<MpiEnd> make_batch_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends);

}  // namespace millrace::cluster
