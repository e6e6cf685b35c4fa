#include "benchmarks/links/turns.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// -- bare MPI ---------------------------------------------------------------------------

double mpi_ping_pong(Transport& transport, Case& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  const int peer = 1 - transport.process(), bytes = static_cast<int>(test.bytes);
  double seconds = 0;
  transport.run([&] {
    MPI_Barrier(communicator);
    const auto start = Clock::now();
    for (std::int64_t turn = 0; turn < test.ping_pongs(); ++turn) {
      // Uses the slots of a ring in turn, as the link does: a single buffer would stay in the cache.
      const std::size_t at = static_cast<std::size_t>(turn % test.depth) * slot_stride(test.down);
      if (transport.process() == 0) MPI_Send(test.send_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator);
      MPI_Recv(test.receive_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator, MPI_STATUS_IGNORE);
      if (transport.process() == 1) MPI_Send(test.send_ring.data + at, bytes, MPI_BYTE, peer, 0, communicator);
    }
    seconds = seconds_since(start) / 2 / static_cast<double>(test.ping_pongs());
  });
  return seconds;
}

double mpi_stream(Transport& transport, Case& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  const bool sends = transport.process() == 0;
  const int bytes = static_cast<int>(test.bytes);
  double seconds = 0;
  transport.run([&] {
    std::vector<MPI_Request> window(static_cast<std::size_t>(test.depth), MPI_REQUEST_NULL);
    const auto post = [&](std::int64_t message) {
      const auto slot = static_cast<std::size_t>(message % test.depth);
      std::byte* data = (sends ? test.send_ring : test.receive_ring).data + slot * slot_stride(test.down);
      if (sends) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 0, communicator, &window[slot]);
      } else {
        MPI_Irecv(data, bytes, MPI_BYTE, 0, 0, communicator, &window[slot]);
      }
    };
    if (!sends) {
      for (int message = 0; message < test.depth; ++message) post(message);
    }
    MPI_Barrier(communicator);
    const auto start = Clock::now();
    const std::int64_t messages = test.stream_messages();
    for (std::int64_t message = 0; message < messages; ++message) {
      MPI_Wait(&window[static_cast<std::size_t>(message % test.depth)], MPI_STATUS_IGNORE);
      if (sends) {
        post(message);
      } else if (message + test.depth < messages) {
        post(message + test.depth);
      }
    }
    MPI_Waitall(test.depth, window.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(communicator);
    seconds = seconds_since(start) / static_cast<double>(messages);
  });
  return seconds;
}

// -- the link ---------------------------------------------------------------------------

namespace {

/// Answers each arrival (ping-pong), or sends and releases as fast as slots allow (stream), entirely from the link's callbacks.
class Player final : public LinkEvents {
 public:
  Player(Case& test, int process, bool ping_pong) : test_(test), process_(process), ping_pong_(ping_pong) {}

  void on_arrival(const Arrival& arrival) override {
    in_->release(arrival.sequence);
    ++arrived_;
    if (ping_pong_) {
      allowed_ = process_ == 0 ? std::min(arrived_ + 1, total()) : arrived_;
      push();
    } else if (process_ == 1 && arrived_ == total()) {
      allowed_ = 1;  // permission to send the message that everything has arrived
      push();
    }
    finish();
  }
  void on_writable(int, std::int64_t sequence) override {
    writable_ = sequence + 1;
    push();
    finish();
  }

  double run(Transport& transport, Link& out, Link& in) {
    out_ = &out;
    in_ = &in;
    transport.barrier();
    Clock::time_point start;
    transport.run([&] {
      start = Clock::now();  // taken on the transport thread, as for MPI, so that the time to get there is not attributed to the link
      if (process_ == 0) allowed_ = ping_pong_ ? 1 : total();
      push();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    return std::chrono::duration<double>(end_ - start).count() / static_cast<double>(total()) / (ping_pong_ ? 2 : 1);
  }

 private:
  [[nodiscard]] std::int64_t total() const { return ping_pong_ ? test_.ping_pongs() : test_.stream_messages(); }
  [[nodiscard]] std::int64_t to_send() const { return ping_pong_ || process_ == 0 ? total() : 1; }
  [[nodiscard]] std::int64_t to_receive() const { return ping_pong_ || process_ == 1 ? total() : 1; }
  void push() {
    const std::size_t bytes = ping_pong_ || process_ == 0 ? test_.bytes : 0;  // a stream's last message is empty
    for (; sent_ < allowed_ && sent_ < writable_ + test_.depth; ++sent_) out_->send(sent_, bytes, 1);
  }
  void finish() {
    if (arrived_ < to_receive() || writable_ < to_send() || sent_ < to_send()) return;
    const std::lock_guard lock(mutex_);
    end_ = Clock::now();
    done_ = true;
    changed_.notify_all();
  }

  Case& test_;
  const int process_;
  const bool ping_pong_;
  Link* out_ = nullptr;
  Link* in_ = nullptr;
  std::int64_t arrived_ = 0, allowed_ = 0, sent_ = 0, writable_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point end_;
};

}  // namespace

double link_turn(Transport& transport, Case& test, bool ping_pong) {
  Player player(test, transport.process(), ping_pong);
  std::vector<ChannelEnds> channels;
  const bool first = transport.process() == 0;
  const std::span send(test.send_ring.data, test.send_ring.bytes), receive(test.receive_ring.data, test.receive_ring.bytes);
  channels.push_back(first ? ChannelEnds{test.down, {}, send, &player, nullptr} : ChannelEnds{test.down, receive, {}, nullptr, &player});
  channels.push_back(first ? ChannelEnds{test.up, receive, {}, nullptr, &player} : ChannelEnds{test.up, {}, send, &player, nullptr});
  Links links(Topology(2, 2, transport.process()), &transport, channels);
  const double seconds = player.run(transport, links.link(first ? 0 : 1), links.link(first ? 1 : 0));
  links.close();
  return seconds;
}

}  // namespace millrace::cluster
