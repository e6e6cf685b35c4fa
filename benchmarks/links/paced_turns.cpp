#include "benchmarks/links/paced_turns.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

double half(Clock::time_point begin, Clock::time_point end) { return std::chrono::duration<double>(end - begin).count() / 2; }

/// A step of 10 us, which divides neither a timer nor a time slice.
void pause(int turn) { std::this_thread::sleep_for(std::chrono::microseconds(500 + turn * 37 % 151 * 10)); }

class Turner final : public LinkEvents {
 public:
  Turner(const Case& test, bool answers, int turns) : bytes_(test.bytes), answers_(answers), turns_(turns) {}

  void on_arrival(const Arrival& arrival) override {
    const auto now = Clock::now();
    in->release(arrival.sequence);
    if (answers_) out->send(arrival.sequence, bytes_, 1);
    const std::lock_guard lock(mutex_);
    arrived_ = static_cast<int>(arrival.sequence) + 1;
    at_ = now;
    changed_.notify_all();
  }
  void on_writable(int, std::int64_t sequence) override {
    const std::lock_guard lock(mutex_);
    writable_ = static_cast<int>(sequence) + 1;
    changed_.notify_all();
  }

  /// Runs on process 0.
  double turn(int number) {
    pause(number);
    const auto begin = Clock::now();
    out->send(number, bytes_, 1);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > number && writable_ > number; });
    return half(begin, at_);
  }
  /// Runs on process 1.
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ == turns_ && writable_ == turns_; });
  }

  Link* out = nullptr;
  Link* in = nullptr;

 private:
  const std::size_t bytes_;
  const bool answers_;
  const int turns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, writable_ = 0;
  Clock::time_point at_;
};

}  // namespace

std::vector<double> paced_mpi(Transport& transport, Case& test, int turns) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  const int bytes = static_cast<int>(test.bytes);
  std::vector<double> halves;
  transport.run([&] {
    MPI_Barrier(communicator);
    for (int turn = 0; turn < turns; ++turn) {
      if (transport.process() == 0) {
        pause(turn);
        const auto begin = Clock::now();
        MPI_Send(test.send_ring.data, bytes, MPI_BYTE, 1, 0, communicator);
        MPI_Recv(test.receive_ring.data, bytes, MPI_BYTE, 1, 0, communicator, MPI_STATUS_IGNORE);
        halves.push_back(half(begin, Clock::now()));
      } else {
        MPI_Recv(test.receive_ring.data, bytes, MPI_BYTE, 0, 0, communicator, MPI_STATUS_IGNORE);
        MPI_Send(test.send_ring.data, bytes, MPI_BYTE, 0, 0, communicator);
      }
    }
  });
  return halves;
}

std::vector<double> paced_link(Transport& transport, Case& test, int turns) {
  const bool first = transport.process() == 0;
  Turner turner(test, !first, turns);
  const std::span send(test.send_ring.data, test.send_ring.bytes), receive(test.receive_ring.data, test.receive_ring.bytes);
  const ChannelEnds sends{first ? test.down : test.up, {}, send, &turner, nullptr};
  const ChannelEnds receives{first ? test.up : test.down, receive, {}, nullptr, &turner};
  Links links(Topology(2, 2, transport.process()), &transport, std::vector{sends, receives});
  turner.out = &links.link(sends.spec.id);
  turner.in = &links.link(receives.spec.id);
  transport.barrier();
  std::vector<double> halves;
  if (first) {
    for (int turn = 0; turn < turns; ++turn) halves.push_back(turner.turn(turn));
  } else {
    turner.wait_for_all();
  }
  links.close();
  return halves;
}

}  // namespace millrace::cluster
