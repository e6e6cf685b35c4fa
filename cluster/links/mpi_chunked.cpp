// Long messages: each slot is divided into chunks that MPI can send.

#include <algorithm>
#include <chrono>

#include "cluster/links/mpi_end.hpp"
#include "cluster/links/slot.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

/// A message of a slot larger than this is sent as an announcement (the prefix alone, always eager) followed by the payload: the
/// announcement informs the receiving transport that a transfer is in progress and needs polling, so that it does not sleep in the
/// middle of it. A shorter message arrives before a sleep would begin, and would only be delayed by an announcement.
constexpr std::size_t announce_from = std::size_t{1} << 20;

/// How the bytes of one slot (prefix and payload) are divided into MPI messages. There are always all chunks, even empty ones, so
/// that no negotiation is needed.
struct Pieces {
  std::size_t first = 0;  ///< bytes of chunk 0
  std::size_t later = 1;  ///< bytes of each further chunk
  int count = 1;

  Pieces(const ChannelSpec& spec, std::size_t piece_bytes) {
    const std::size_t total = sizeof(SlotPrefix) + spec.bytes;
    later = std::max(spec.part_bytes > 0 ? std::min(piece_bytes, spec.part_bytes) : piece_bytes, sizeof(SlotPrefix));
    const bool apart = spec.on_device || spec.part_bytes > 0 || total > std::min(announce_from, later);
    first = apart ? sizeof(SlotPrefix) : total;
    count = 1 + static_cast<int>((total - first + later - 1) / later);
  }

  [[nodiscard]] std::size_t offset(int piece) const { return piece == 0 ? 0 : first + static_cast<std::size_t>(piece - 1) * later; }
  /// Bytes of `piece` if prefix and payload are `total` bytes.
  [[nodiscard]] int size(int piece, std::size_t total) const {
    const std::size_t begin = std::min(offset(piece), total);
    return static_cast<int>(std::min(begin + (piece == 0 ? first : later), total) - begin);
  }
  /// Number of complete chunks of a message of `total` bytes, including its prefix, whose first `ready` are available.
  [[nodiscard]] int ready(std::size_t ready, std::size_t total) const {
    if (ready >= total) return count;
    return ready < first ? 0 : 1 + static_cast<int>((ready - first) / later);
  }
  [[nodiscard]] std::size_t requests(const ChannelSpec& spec) const {
    return static_cast<std::size_t>(spec.depth) * static_cast<std::size_t>(count);
  }
};

class PieceSender final : public MpiSender {
 public:
  PieceSender(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, const Pieces& pieces)
      : MpiSender(ends, transport, route.peer, pieces.requests(ends.spec)), pieces_(pieces) {}

  void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override {
    accept(sequence, bytes, producer_finish_ns);
    make_ready((sequence + 1) * pieces_.count);
  }
  void begin(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override {
    accept(sequence, bytes, producer_finish_ns);
    make_ready(sequence * pieces_.count + 1);
  }
  void ready(std::int64_t sequence, std::size_t bytes) override {
    MILLRACE_CHECK(sequence + 1 == postable_.load(std::memory_order_relaxed), ExitCode::internal, "cluster.link",
                   "{}: a part of message {}, expected one of message {}, which began last", channel_text(spec_), sequence,
                   postable_.load(std::memory_order_relaxed) - 1);
    make_ready(sequence * pieces_.count + pieces_.ready(sizeof(SlotPrefix) + bytes, total_of(sequence)));
  }

  bool post() override {
    const std::int64_t ready = ready_.load(std::memory_order_acquire);
    if (posted_ == ready) return false;
    while (posted_ < ready) {
      const std::int64_t sequence = posted_ / pieces_.count;
      const int piece = static_cast<int>(posted_ % pieces_.count);
      const std::byte* from = piece == 0 ? prefix_of(sequence) : slot_address(spec_, ring_, sequence) + pieces_.offset(piece);
      post_send(from, pieces_.size(piece, total_of(sequence)));
    }
    last_post_ = Clock::now();
    return true;
  }

  // A receiver may have no free slot for a long time; a sender that waits for it need not poll intensively.
  bool transferring() const override {
    return outstanding() && Clock::now() - last_post_ < std::chrono::milliseconds(1) + std::chrono::nanoseconds(2 * spec_.bytes);
  }

 private:
  std::size_t total_of(std::int64_t sequence) {
    SlotPrefix prefix;
    std::memcpy(&prefix, prefix_of(sequence), sizeof prefix);
    return sizeof prefix + prefix.bytes;
  }
  void make_ready(std::int64_t pieces) {
    ready_.store(pieces, std::memory_order_release);
    transport_.wake();
  }
  void request_ended(std::int64_t number, const MPI_Status&) override {
    if ((number + 1) % pieces_.count == 0) sent_up_to((number + 1) / pieces_.count);
  }

  const Pieces pieces_;
  std::atomic<std::int64_t> ready_{0};  ///< chunks that may be posted, counted since the beginning
  Clock::time_point last_post_{};
};

class PieceReceiver final : public MpiReceiver {
 public:
  PieceReceiver(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, const Pieces& pieces)
      : MpiReceiver(ends, transport, route.peer, pieces.requests(ends.spec), route.same_clock), pieces_(pieces) {}

  bool post() override {
    const std::int64_t postable = postable_.load(std::memory_order_acquire);
    if (posted_ == postable * pieces_.count) return false;
    while (posted_ < postable * pieces_.count) {
      const std::int64_t sequence = posted_ / pieces_.count;
      std::byte* slot = slot_address(spec_, ring_, sequence);
      for (int piece = 0; piece < pieces_.count; ++piece)
        post_receive(piece == 0 ? prefix_of(sequence) : slot + pieces_.offset(piece),
                     pieces_.size(piece, sizeof(SlotPrefix) + spec_.bytes));
    }
    return true;
  }

  bool transferring() const override { return tested_ % pieces_.count != 0; }

 private:
  void request_ended(std::int64_t number, const MPI_Status& status) override {
    const std::int64_t sequence = number / pieces_.count;
    const int piece = static_cast<int>(number % pieces_.count);
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    MILLRACE_CHECK(piece > 0 || got >= static_cast<int>(sizeof(SlotPrefix)), ExitCode::internal, "cluster.link",
                   "{}: message {} begins with {} bytes, expected the prefix of {}", channel_text(spec_), sequence, got,
                   sizeof(SlotPrefix));
    if (piece == 0) prefix_ = read_prefix(spec_, prefix_of(sequence), sequence);
    const int expected = pieces_.size(piece, sizeof(SlotPrefix) + prefix_.bytes);
    MILLRACE_CHECK(got == expected, ExitCode::internal, "cluster.link", "{}: piece {} of message {} has {} bytes, expected {}",
                   channel_text(spec_), piece, sequence, got, expected);
    if (piece > 0 && spec_.part_bytes > 0 && got > 0)
      part_arrived(sequence, pieces_.offset(piece) - sizeof(SlotPrefix), static_cast<std::size_t>(got));
    if (piece + 1 == pieces_.count) arrived(sequence, prefix_.bytes, prefix_.producer_finish_ns);
  }

  const Pieces pieces_;
  SlotPrefix prefix_;  ///< of the message whose chunks are arriving
};

}  // namespace

std::unique_ptr<MpiEnd> make_piece_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends,
                                       std::size_t piece_bytes) {
  const Pieces pieces(ends.spec, piece_bytes);
  if (sends) return std::make_unique<PieceSender>(ends, transport, route, pieces);
  return std::make_unique<PieceReceiver>(ends, transport, route, pieces);
}

}  // namespace millrace::cluster
