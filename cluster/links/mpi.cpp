#include <algorithm>
#include <atomic>
#include <chrono>

#include "cluster/links/remote.hpp"
#include "cluster/links/slot.hpp"
#include "cluster/mpi_world.hpp"
#include "cluster/transport.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

/// A message of a slot larger than this goes as an announcement (the prefix alone, always eager) and the payload behind it: the
/// announcement tells the receiving transport that a transfer is under way, which needs its polls, so it does not nap in the middle of it.
constexpr std::size_t announce_from = std::size_t{64} << 10;

/// How the bytes of one slot (prefix and payload) are cut into MPI messages. Always all pieces, empty ones too: then they need no
/// negotiation.
struct Pieces {
  std::size_t first = 0;  ///< bytes of piece 0
  std::size_t later = 1;  ///< of each further piece
  int count = 1;

  Pieces(const ChannelSpec& spec, std::size_t piece_bytes) {
    const std::size_t total = sizeof(SlotPrefix) + spec.bytes;
    later = std::max(piece_bytes, sizeof(SlotPrefix));
    first = total > std::min(announce_from, later) ? sizeof(SlotPrefix) : total;
    count = 1 + static_cast<int>((total - first + later - 1) / later);
  }

  [[nodiscard]] std::size_t offset(int piece) const { return piece == 0 ? 0 : first + static_cast<std::size_t>(piece - 1) * later; }
  /// Bytes of `piece` when prefix and payload are `total` bytes.
  [[nodiscard]] int size(int piece, std::size_t total) const {
    const std::size_t begin = std::min(offset(piece), total);
    return static_cast<int>(std::min(begin + (piece == 0 ? first : later), total) - begin);
  }
};

/// The end of a channel that is here. `wanted` counts the messages that may be posted; other threads raise it, the transport thread
/// follows.
class MpiEnd : public Link {
 public:
  MpiEnd(const ChannelSpec& spec, std::byte* ring, Transport& transport, int peer, std::size_t piece_bytes)
      : Link(spec),
        ring_(ring),
        transport_(transport),
        communicator_(transport.world().by_kind[static_cast<std::size_t>(spec.kind)]),
        peer_(peer),
        pieces_(spec, piece_bytes),
        requests_(static_cast<std::size_t>(spec.depth) * static_cast<std::size_t>(pieces_.count), MPI_REQUEST_NULL) {}

  std::byte* slot(std::int64_t sequence) const override { return slot_address(spec_, ring_, sequence) + sizeof(SlotPrefix); }

  // -- the transport thread's ---------------------------------------------------------

  /// Posts what may be posted; true when something was.
  bool post() {
    const std::int64_t wanted = wanted_.load(std::memory_order_acquire);
    if (posted_ == wanted) return false;
    for (; posted_ < wanted; ++posted_) post_message(posted_);
    return true;
  }
  [[nodiscard]] bool outstanding() const { return tested_ < posted_ * pieces_.count; }
  /// A long message is moving, which needs polls.
  [[nodiscard]] virtual bool transferring() const { return tested_ % pieces_.count != 0; }
  /// The oldest piece that has not ended: pieces of a channel are looked at in order.
  MPI_Request& head() { return requests_[static_cast<std::size_t>(tested_ % static_cast<std::int64_t>(requests_.size()))]; }
  /// The head has ended.
  void advance(const MPI_Status& status) {
    const std::int64_t sequence = tested_ / pieces_.count;
    const int piece = static_cast<int>(tested_ % pieces_.count);
    head() = MPI_REQUEST_NULL;
    ++tested_;
    piece_ended(sequence, piece, status);
  }
  /// Looks at the head alone: cheap when it has ended, one turn of MPI's progress when not.
  bool advance_if_ended() {
    post();
    if (!outstanding()) return false;
    int ended = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&head(), &ended, &status), "MPI_Test");
    if (ended) advance(status);
    return ended != 0;
  }
  void take_back() {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }

 protected:
  virtual void post_message(std::int64_t sequence) = 0;
  virtual void piece_ended(std::int64_t sequence, int piece, const MPI_Status& status) = 0;

  MPI_Request& request(std::int64_t sequence, int piece) {
    return requests_[static_cast<std::size_t>(sequence % spec_.depth) * static_cast<std::size_t>(pieces_.count) +
                     static_cast<std::size_t>(piece)];
  }

  std::byte* const ring_;
  Transport& transport_;
  const MPI_Comm communicator_;
  const int peer_;
  const Pieces pieces_;
  std::atomic<std::int64_t> wanted_{0};
  std::atomic<std::int64_t> ended_{0};  ///< messages that arrived, or that were sent to the end
  std::atomic<std::int64_t> bytes_{0};

 private:
  std::vector<MPI_Request> requests_;
  std::int64_t posted_ = 0;  ///< messages
  std::int64_t tested_ = 0;  ///< pieces
};

class MpiSender final : public MpiEnd {
 public:
  MpiSender(const ChannelEnds& ends, Transport& transport, int peer, std::size_t piece_bytes)
      : MpiEnd(ends.spec, ends.send_ring.data(), transport, peer, piece_bytes), events_(ends.sender) {}

  void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override {
    const std::int64_t due = wanted_.load(std::memory_order_relaxed);
    MILLRACE_CHECK(sequence == due, ExitCode::internal, "cluster.link", "{}: message {} is sent where {} was due", channel_text(spec_),
                   sequence, due);
    MILLRACE_CHECK(bytes <= spec_.bytes, ExitCode::internal, "cluster.link", "{}: a message of {} bytes, a slot has {}",
                   channel_text(spec_), bytes, spec_.bytes);
    MILLRACE_CHECK(sequence < ended_.load(std::memory_order_acquire) + spec_.depth, ExitCode::internal, "cluster.link",
                   "{}: message {} is sent while its slot still holds message {}", channel_text(spec_), sequence, sequence - spec_.depth);
    write_prefix(spec_, slot_address(spec_, ring_, sequence), sequence, bytes, producer_finish_ns);
    bytes_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    wanted_.store(sequence + 1, std::memory_order_release);
    transport_.wake();
  }

  void release(std::int64_t) override { fail(ExitCode::internal, "cluster.link", "{}: release on the sending side", channel_text(spec_)); }

  Counters counters() const noexcept override {
    return {wanted_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed), 0, 0};
  }

 private:
  void post_message(std::int64_t sequence) override {
    std::byte* slot = slot_address(spec_, ring_, sequence);
    SlotPrefix prefix;
    std::memcpy(&prefix, slot, sizeof prefix);
    const std::size_t total = sizeof prefix + prefix.bytes;
    for (int piece = 0; piece < pieces_.count; ++piece) {
      check_mpi(MPI_Isend(slot + pieces_.offset(piece), pieces_.size(piece, total), MPI_BYTE, peer_, spec_.id, communicator_,
                          &request(sequence, piece)),
                "MPI_Isend");
    }
    last_post_ = Clock::now();
  }

  // A receiver may be without a free slot for long; a sender that waits for it need not poll hard.
  bool transferring() const override {
    return MpiEnd::transferring() && Clock::now() - last_post_ < std::chrono::milliseconds(1) + std::chrono::nanoseconds(2 * spec_.bytes);
  }

  void piece_ended(std::int64_t sequence, int piece, const MPI_Status&) override {
    if (piece + 1 < pieces_.count) return;
    ended_.store(sequence + 1, std::memory_order_release);
    events_->on_writable(spec_.id, sequence);
  }

  LinkEvents* const events_;
  Clock::time_point last_post_{};
};

class MpiReceiver final : public MpiEnd {
 public:
  MpiReceiver(const ChannelEnds& ends, Transport& transport, int peer, std::size_t piece_bytes, bool same_clock)
      : MpiEnd(ends.spec, ends.receive_ring.data(), transport, peer, piece_bytes), events_(ends.receiver), same_clock_(same_clock) {
    wanted_.store(spec_.depth);
  }

  void send(std::int64_t, std::size_t, std::int64_t) override {
    fail(ExitCode::internal, "cluster.link", "{}: send on the receiving side", channel_text(spec_));
  }

  void release(std::int64_t sequence) override {
    const std::int64_t due = wanted_.load(std::memory_order_relaxed) - spec_.depth;
    MILLRACE_CHECK(sequence == due && sequence < ended_.load(std::memory_order_acquire), ExitCode::internal, "cluster.link",
                   "{}: message {} is released where {} of {} arrived was due", channel_text(spec_), sequence, due,
                   ended_.load(std::memory_order_relaxed));
    wanted_.store(due + spec_.depth + 1, std::memory_order_release);
    transport_.wake();
  }

  Counters counters() const noexcept override {
    return {0, 0, ended_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
  }

 private:
  void post_message(std::int64_t sequence) override {
    std::byte* slot = slot_address(spec_, ring_, sequence);
    for (int piece = 0; piece < pieces_.count; ++piece) {
      check_mpi(MPI_Irecv(slot + pieces_.offset(piece), pieces_.size(piece, sizeof(SlotPrefix) + spec_.bytes), MPI_BYTE, peer_, spec_.id,
                          communicator_, &request(sequence, piece)),
                "MPI_Irecv");
    }
  }

  void piece_ended(std::int64_t sequence, int piece, const MPI_Status& status) override {
    const std::byte* slot = slot_address(spec_, ring_, sequence);
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    MILLRACE_CHECK(piece > 0 || got >= static_cast<int>(sizeof(SlotPrefix)), ExitCode::internal, "cluster.link",
                   "{}: message {} begins with {} bytes, wanted the prefix of {}", channel_text(spec_), sequence, got, sizeof(SlotPrefix));
    if (piece == 0) prefix_ = read_prefix(spec_, slot, sequence);
    const int wanted = pieces_.size(piece, sizeof(SlotPrefix) + prefix_.bytes);
    MILLRACE_CHECK(got == wanted, ExitCode::internal, "cluster.link", "{}: piece {} of message {} has {} bytes, wanted {}",
                   channel_text(spec_), piece, sequence, got, wanted);
    if (piece + 1 < pieces_.count) return;
    bytes_.fetch_add(static_cast<std::int64_t>(prefix_.bytes), std::memory_order_relaxed);
    ended_.store(sequence + 1, std::memory_order_release);
    events_->on_arrival({spec_.id, sequence, this->slot(sequence), prefix_.bytes, same_clock_ ? prefix_.producer_finish_ns : 0});
  }

  LinkEvents* const events_;
  const bool same_clock_;
  SlotPrefix prefix_;  ///< of the message whose pieces are arriving
};

class MpiRemote final : public RemoteLinks, public Poller {
 public:
  MpiRemote(const Topology& topology, Transport& transport, std::size_t piece_bytes)
      : topology_(topology), transport_(transport), piece_bytes_(std::min(piece_bytes, Links::default_piece_bytes)) {
    MILLRACE_CHECK(topology.processes() == transport.processes() && topology.process() == transport.process(), ExitCode::internal,
                   "cluster.link", "process {} of {} by the topology, {} of {} by MPI", topology.process(), topology.processes(),
                   transport.process(), transport.processes());
  }

  Link& add(const ChannelEnds& ends) override {
    const bool sends = topology_.hosts(ends.spec.from_rank);
    const int peer = topology_.process_of(sends ? ends.spec.to_rank : ends.spec.from_rank);
    MILLRACE_CHECK(ends.spec.id <= transport_.world().tag_limit, ExitCode::start, "cluster.link", "{}: this MPI has tags up to {}",
                   channel_text(ends.spec), transport_.world().tag_limit);
    const bool same_clock = transport_.host(peer) == transport_.host(topology_.process());
    if (sends) {
      ends_.push_back(std::make_unique<MpiSender>(ends, transport_, peer, piece_bytes_));
    } else {
      ends_.push_back(std::make_unique<MpiReceiver>(ends, transport_, peer, piece_bytes_, same_clock));
    }
    return *ends_.back();
  }

  void start() override {
    heads_.assign(ends_.size(), MPI_REQUEST_NULL);
    indices_.resize(ends_.size());
    statuses_.resize(ends_.size());
    transport_.run([this] {
      for (const auto& end : ends_) end->post();
    });
    transport_.attach(*this);
    started_ = true;
  }

  void stop() override {
    if (!started_) return;
    started_ = false;
    transport_.detach(*this);
    transport_.run([this] {
      for (const auto& end : ends_) end->take_back();
    });
  }

  Activity poll() override {
    bool moved = false, waiting = false;
    for (std::size_t index = 0; index < ends_.size(); ++index) {
      MpiEnd& end = *ends_[index];
      moved |= end.post();
      if (!end.outstanding()) continue;
      waiting = true;
      heads_[index] = end.head();
    }
    if (!waiting) return moved ? Activity::moved : Activity::idle;
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(heads_.size()), heads_.data(), &count, indices_.data(), statuses_.data()), "MPI_Testsome");
    for (int ended = 0; ended < count; ++ended) {
      MpiEnd& end = *ends_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(ended)])];
      end.advance(statuses_[static_cast<std::size_t>(ended)]);
      // Small messages come several at a time.
      while (end.advance_if_ended()) {
      }
      moved = true;
    }
    if (moved) return Activity::moved;
    return std::any_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->transferring(); }) ? Activity::transferring
                                                                                                        : Activity::waiting;
  }

 private:
  const Topology topology_;
  Transport& transport_;
  const std::size_t piece_bytes_;
  bool started_ = false;
  std::vector<std::unique_ptr<MpiEnd>> ends_;
  // One entry per end, its oldest request: MPI_Testsome is linear in what it is given, and pieces of an end finish in order anyway.
  std::vector<MPI_Request> heads_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<RemoteLinks> RemoteLinks::make(const Topology& topology, Transport& transport, std::size_t piece_bytes) {
  return std::make_unique<MpiRemote>(topology, transport, piece_bytes);
}

}  // namespace millrace::cluster
