#include "benchmarks/links/exchange_turns.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "cluster/links/mpi_world.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A step of 10 us, which divides neither a timer nor a time slice.
void pause(int turn) { std::this_thread::sleep_for(std::chrono::microseconds(500 + turn * 37 % 151 * 10)); }

void alltoallv(ExchangeCase& test, MPI_Comm communicator) {
  check_mpi(MPI_Alltoallv(test.from.data, test.counts.data(), test.offsets.data(), MPI_BYTE, test.into.data, test.counts.data(),
                          test.offsets.data(), MPI_BYTE, communicator),
            "MPI_Alltoallv");
}

/// Posts the next exchange when one has ended, on the transport thread; or reports each end to a thread that posts the next.
class Exchanger final : public ExchangeEvents {
 public:
  Exchanger(Transport& transport, ExchangeCase& test) : test_(test) {
    ExchangeGroup group{0, "all", std::vector<int>(static_cast<std::size_t>(test.processes))};
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    const Exchanges::Member member{test.process, this};
    exchanges_ = std::make_unique<Exchanges>(Topology(test.processes, test.processes, test.process), &transport, std::span(&group, 1),
                                             std::span(&member, 1));
    exchange_ = &exchanges_->exchange(0, test.process);
  }
  ~Exchanger() { exchanges_->close(); }
  Exchanger(const Exchanger&) = delete;

  void on_exchanged(int, std::int64_t sequence) override {
    if (sequence + 1 < chained_) return post(sequence + 1);
    const std::lock_guard lock(mutex_);
    end_ = Clock::now();
    ended_ = sequence + 1;
    changed_.notify_all();
  }

  void post(std::int64_t sequence) {
    exchange_->post(sequence, test_.from.data, test_.into.data, {test_.at, test_.sizes, test_.at, test_.sizes});
  }
  /// The time when the exchanges before `count` had ended.
  Clock::time_point wait(std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
    return end_;
  }
  void chain(std::int64_t count) { chained_ = count; }

 private:
  ExchangeCase& test_;
  std::int64_t chained_ = 0;
  std::unique_ptr<Exchanges> exchanges_;
  Exchange* exchange_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t ended_ = 0;
  Clock::time_point end_;
};

}  // namespace

ExchangeCase::ExchangeCase(const Transport& transport, std::size_t size)
    : bytes(size),
      process(transport.process()),
      processes(transport.processes()),
      from(size * static_cast<std::size_t>(processes)),
      into(size * static_cast<std::size_t>(processes)) {
  MILLRACE_CHECK(from.bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max()), ExitCode::usage, "exchange_bench",
                 "{} bytes for each of {} processes, expected less than 2 GiB in all, as MPI_Alltoallv does", size, processes);
  for (int peer = 0; peer < processes; ++peer) {
    at.push_back(static_cast<std::int64_t>(size) * peer);
    sizes.push_back(peer == process ? 0 : static_cast<std::int64_t>(size));
    offsets.push_back(static_cast<int>(at.back()));
    counts.push_back(static_cast<int>(sizes.back()));
  }
}

int ExchangeCase::repetitions() const {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / std::max<std::size_t>(bytes, 1), 4, 2000));
}

double repeated_alltoallv(Transport& transport, ExchangeCase& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  double seconds = 0;
  transport.run([&] {
    MPI_Barrier(communicator);
    const auto start = Clock::now();
    for (int turn = 0; turn < test.repetitions(); ++turn) alltoallv(test, communicator);
    seconds = seconds_since(start) / test.repetitions();
  });
  return seconds;
}

double repeated_exchange(Transport& transport, ExchangeCase& test) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  Exchanger exchanger(transport, test);
  exchanger.chain(test.repetitions());
  Clock::time_point start;
  transport.run([&] {
    MPI_Barrier(communicator);
    start = Clock::now();
    exchanger.post(0);
  });
  return std::chrono::duration<double>(exchanger.wait(test.repetitions()) - start).count() / test.repetitions();
}

std::vector<double> paced_alltoallv(Transport& transport, ExchangeCase& test, int turns) {
  const MPI_Comm communicator = transport.world().by_kind[1];
  std::vector<double> seconds;
  transport.run([&] {
    MPI_Barrier(communicator);
    for (int turn = 0; turn < turns; ++turn) {
      if (test.process == 0) pause(turn);
      const auto start = Clock::now();
      alltoallv(test, communicator);
      seconds.push_back(seconds_since(start));
    }
  });
  return seconds;
}

std::vector<double> paced_exchange(Transport& transport, ExchangeCase& test, int turns) {
  Exchanger exchanger(transport, test);
  std::vector<double> seconds;
  transport.barrier();
  for (int turn = 0; turn < turns; ++turn) {
    if (test.process == 0) pause(turn);
    const auto start = Clock::now();
    exchanger.post(turn);
    seconds.push_back(std::chrono::duration<double>(exchanger.wait(turn + 1) - start).count());
  }
  return seconds;
}

}  // namespace millrace::cluster
