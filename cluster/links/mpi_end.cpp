#include "cluster/links/mpi_end.hpp"

#include <utility>

#include "cluster/links/slot.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

MpiEnd::MpiEnd(const ChannelSpec& spec, std::byte* ring, Transport& transport, int peer, std::size_t requests)
    : Link(spec),
      ring_(ring),
      transport_(transport),
      communicator_(transport.world().by_kind[static_cast<std::size_t>(spec.kind)]),
      peer_(peer),
      prefixes_(spec.on_device ? static_cast<std::size_t>(spec.depth) : 0),
      requests_(requests, MPI_REQUEST_NULL),
      sizes_(requests) {}

std::byte* MpiEnd::slot(std::int64_t sequence) const { return slot_address(spec_, ring_, sequence) + sizeof(SlotPrefix); }

std::byte* MpiEnd::prefix_of(std::int64_t sequence) {
  return prefixes_.empty() ? slot_address(spec_, ring_, sequence) : prefixes_[static_cast<std::size_t>(sequence % spec_.depth)].data();
}

namespace {

/// MPI keeps a longer message until the receiver has it, so the sender may sleep until it is rung. A shorter message leaves
/// immediately, unless many are in flight, which only the sender can see: it polls from time to time.
constexpr int rung_from = 4096;

/// Ringing for every message would cost a stream of short ones 2 % of its bandwidth, since both sides write to the bell.
constexpr int ring_after = 256 << 10;

}  // namespace

Activity MpiEnd::while_waiting() const {
  if (!sends()) return Activity::listening;
  return sizes_[place(tested_)] < rung_from ? Activity::unsignalled : Activity::sending;
}

void MpiEnd::advance(const MPI_Status& status) {
  head() = MPI_REQUEST_NULL;
  if (!sends()) {  // its sender may have the slot again
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes >= rung_from) unsignalled_ += bytes;
    if (unsignalled_ >= ring_after) ring_sender();
  }
  request_ended(tested_++, status);
}

void MpiEnd::ring_sender() {
  if (std::exchange(unsignalled_, 0) > 0) transport_.wake(peer_);
}

bool MpiEnd::advance_if_ended() {
  post();
  if (!outstanding()) return false;
  int ended = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&head(), &ended, &status), "MPI_Test");
  if (ended) advance(status);
  return ended != 0;
}

void MpiEnd::take_back() {
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

void MpiEnd::post_send(const std::byte* data, int bytes) {
  sizes_[place(posted_)] = bytes;
  check_mpi(MPI_Isend(data, bytes, MPI_BYTE, peer_, spec_.id, communicator_, &request(posted_++)), "MPI_Isend");
  transport_.wake(peer_);
}

void MpiEnd::post_receive(std::byte* data, int bytes) {
  check_mpi(MPI_Irecv(data, bytes, MPI_BYTE, peer_, spec_.id, communicator_, &request(posted_++)), "MPI_Irecv");
}

void MpiEnd::check_send(std::int64_t sequence, std::size_t bytes) const {
  const std::int64_t due = postable_.load(std::memory_order_relaxed);
  MILLRACE_CHECK(sequence == due, ExitCode::internal, "cluster.link", "{}: message {} is sent, expected {}", channel_text(spec_), sequence,
                 due);
  MILLRACE_CHECK(bytes <= spec_.bytes, ExitCode::internal, "cluster.link", "{}: a message of {} bytes, a slot has {}", channel_text(spec_),
                 bytes, spec_.bytes);
  MILLRACE_CHECK(sequence < ended_.load(std::memory_order_acquire) + spec_.depth, ExitCode::internal, "cluster.link",
                 "{}: message {} is sent while its slot still holds message {}", channel_text(spec_), sequence, sequence - spec_.depth);
}

void MpiEnd::check_release(std::int64_t sequence) const {
  const std::int64_t due = postable_.load(std::memory_order_relaxed) - spec_.depth;
  MILLRACE_CHECK(sequence == due && sequence < ended_.load(std::memory_order_acquire), ExitCode::internal, "cluster.link",
                 "{}: message {} is released, expected {} of {} arrived", channel_text(spec_), sequence, due,
                 ended_.load(std::memory_order_relaxed));
}

void MpiEnd::refuse(const char* call) const { fail(ExitCode::internal, "cluster.link", "{}: {}", channel_text(spec_), call); }

// -- senders ------------------------------------------------------------------------------

MpiSender::MpiSender(const ChannelEnds& ends, Transport& transport, int peer, std::size_t requests)
    : MpiEnd(ends.spec, ends.send_ring.data(), transport, peer, requests), events_(ends.sender) {}

void MpiSender::accept(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) {
  check_send(sequence, bytes);
  write_prefix(spec_, prefix_of(sequence), sequence, bytes, producer_finish_ns);
  count(bytes);
  postable_.store(sequence + 1, std::memory_order_release);
}

void MpiSender::send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) {
  accept(sequence, bytes, producer_finish_ns);
  transport_.wake();
}

Link::Counters MpiSender::counters() const noexcept {
  return {postable_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed), 0, 0, 0};
}

void MpiSender::sent_up_to(std::int64_t end) {
  std::int64_t sequence = ended_.load(std::memory_order_relaxed);
  ended_.store(end, std::memory_order_release);
  for (; sequence < end; ++sequence) events_->on_writable(spec_.id, sequence);
}

// -- receivers ----------------------------------------------------------------------------

MpiReceiver::MpiReceiver(const ChannelEnds& ends, Transport& transport, int peer, std::size_t requests, bool same_clock)
    : MpiEnd(ends.spec, ends.receive_ring.data(), transport, peer, requests), events_(ends.receiver), same_clock_(same_clock) {
  postable_.store(spec_.depth);
}

void MpiReceiver::release(std::int64_t sequence) {
  check_release(sequence);
  postable_.store(sequence + spec_.depth + 1, std::memory_order_release);
  transport_.wake();
}

Link::Counters MpiReceiver::counters() const noexcept {
  const std::int64_t released = postable_.load(std::memory_order_acquire) - spec_.depth;  // read first: never more than have arrived
  return {0, 0, ended_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed), released};
}

void MpiReceiver::part_arrived(std::int64_t sequence, std::size_t from, std::size_t bytes) {
  events_->on_part({spec_.id, sequence, slot(sequence) + from, bytes, 0}, from);
}

void MpiReceiver::arrived(std::int64_t sequence, std::uint64_t bytes, std::int64_t producer_finish_ns) {
  count(bytes);
  ended_.store(sequence + 1, std::memory_order_release);
  events_->on_arrival({spec_.id, sequence, slot(sequence), bytes, same_clock_ ? producer_finish_ns : 0});
}

}  // namespace millrace::cluster
