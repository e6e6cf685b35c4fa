#include "actors/profile_gather.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <utility>

#include "actors/pipeline.hpp"
#include "actors/wire.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

constexpr const char* who = "actors.profile";
constexpr std::chrono::seconds patience{30};

// On the control link, beside kToRanks and kToCoordinator.
constexpr std::uint16_t kPing = 16, kPong = 17, kAsk = 18, kRank = 19, kProcess = 20;

using RecordWords = std::array<std::uint64_t, sizeof(runtime::TraceRecord) / sizeof(std::uint64_t)>;

struct Ping {
  std::int32_t number = 0;
  std::int64_t there = 0;
  auto tie() { return std::tie(number, there); }
};

/// A rank's records as they travel.
struct RankRecords {
  std::int32_t rank = 0;
  std::vector<std::uint64_t> compute, checkpoint;
  std::vector<OperationSum> operations;
  auto tie() { return std::tie(rank, compute, checkpoint, operations); }
};

/// The last message of a process.
struct ProcessRecords {
  std::string host;
  std::string kernel;
  std::uint64_t resident = 0;
  auto tie() { return std::tie(host, kernel, resident); }
};

/// Names the running kernel: processes with the same one have the same steady clock, whatever their hosts are called.
std::string kernel_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

ProcessRecords this_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {cluster::host_name(), kernel_id(), static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

std::vector<std::uint64_t> words_of(const runtime::TraceRing& ring, std::int64_t first_step) {
  std::vector<std::uint64_t> words;
  for (const auto& record : ring.snapshot()) {
    if (record.step.value < first_step) continue;
    const auto parts = std::bit_cast<RecordWords>(record);
    words.insert(words.end(), parts.begin(), parts.end());
  }
  return words;
}

/// Records by process 0's clock.
std::vector<runtime::TraceRecord> records_of(const std::vector<std::uint64_t>& words, std::int64_t offset) {
  RecordWords parts;
  MILLRACE_CHECK(words.size() % parts.size() == 0, ExitCode::internal, who, "{} words of records, wanted a multiple of {}", words.size(),
                 parts.size());
  std::vector<runtime::TraceRecord> records;
  for (std::size_t at = 0; at < words.size(); at += parts.size()) {
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(at), parts.size(), parts.begin());
    auto record = std::bit_cast<runtime::TraceRecord>(parts);
    record.begin += offset;
    record.end += offset;
    if (record.produced != 0) record.produced += offset;  // of the same clock, or not known
    records.push_back(record);
  }
  return records;
}

/// One process's part in the exchange. The handler is the control thread's, the rest the caller's.
class Exchange {
 public:
  Exchange(Session& session, Pipeline& pipeline, std::int64_t first_step,
           const std::function<std::vector<OperationSum>(const Rank&)>& operations)
      : session_(session), pipeline_(pipeline), first_step_(first_step), operations_(operations) {
    const auto processes = static_cast<std::size_t>(session.topology().processes());
    trips_.resize(processes);
    processes_.resize(processes);
    ranks_.resize(static_cast<std::size_t>(session.topology().ranks()));
    session_.on_message([this](int process, std::uint16_t type, std::span<const std::byte> bytes) { receive(process, type, bytes); });
    session_.control().agree({{"profile", "ready"}});  // everybody listens before anybody speaks
  }
  ~Exchange() { session_.on_message(nullptr); }

  std::optional<GatheredRecords> run() {
    std::optional<GatheredRecords> gathered;
    if (session_.leads()) {
      for (int process = 1; process < session_.topology().processes(); ++process) ping(process);
      take_own();
      for (int process = 1; process < session_.topology().processes(); ++process) session_.control().send(process, kAsk, {});
      wait_for([this] { return told_ == processes_.size(); }, "its records");
      gathered = merge();
    } else {
      wait_for([this] { return asked_; }, "to be asked for its records");
      tell();
    }
    session_.control().agree({{"profile", "done"}});
    return gathered;
  }

 private:
  void receive(int process, std::uint16_t type, std::span<const std::byte> bytes) {
    if (type == kPing) {
      Ping ping;
      decode(bytes, ping);
      ping.there = runtime::steady_now();
      return session_.control().send(process, kPong, encode(ping));
    }
    const std::lock_guard lock(mutex_);
    const auto from = static_cast<std::size_t>(process);
    if (type == kPong) {
      Ping ping;
      decode(bytes, ping);
      trips_[from].push_back({sent_, ping.there, runtime::steady_now()});
    } else if (type == kAsk) {
      asked_ = true;
    } else if (type == kRank) {
      RankRecords rank;
      decode(bytes, rank);
      const auto place = static_cast<std::size_t>(rank.rank);
      ranks_.at(place) = std::move(rank);
    } else if (type == kProcess) {
      decode(bytes, processes_[from]);
      ++told_;
    }
    changed_.notify_all();
  }

  template <class Done>
  void wait_for(Done done, const char* what) {
    std::unique_lock lock(mutex_);
    MILLRACE_CHECK(changed_.wait_for(lock, patience, done), ExitCode::peer_lost, who, "process {} waited {} s for {}",
                   session_.topology().process(), patience.count(), what);
  }

  void ping(int process) {
    for (int number = 0; number < kClockPings; ++number) {
      {
        const std::lock_guard lock(mutex_);
        sent_ = runtime::steady_now();
      }
      Ping ping{number, 0};
      session_.control().send(process, kPing, encode(ping));
      wait_for([&] { return trips_[static_cast<std::size_t>(process)].size() > static_cast<std::size_t>(number); }, "an answer to a ping");
    }
  }

  std::vector<RankRecords> own_ranks() {
    std::vector<RankRecords> records;
    for (Rank* rank : pipeline_.ranks()) {
      RankRecords own;
      own.rank = rank->id().value;
      own.compute = words_of(rank->trace(), first_step_);
      if (records.empty()) own.checkpoint = words_of(pipeline_.checkpoint_trace(), first_step_);
      if (operations_) own.operations = operations_(*rank);
      records.push_back(std::move(own));
    }
    return records;
  }

  void take_own() {
    auto own = own_ranks();
    const std::lock_guard lock(mutex_);
    for (auto& rank : own) {
      const auto place = static_cast<std::size_t>(rank.rank);
      ranks_[place] = std::move(rank);
    }
    processes_[0] = this_process();
    ++told_;
  }

  void tell() {
    for (auto& rank : own_ranks()) session_.control().send(0, kRank, encode(rank));
    auto process = this_process();
    session_.control().send(0, kProcess, encode(process));
  }

  GatheredRecords merge() {
    GatheredRecords gathered;
    for (std::size_t process = 0; process < processes_.size(); ++process) {
      runtime::ProcessClock clock;
      clock.process = static_cast<int>(process);
      clock.host = processes_[process].host;
      clock.shared = processes_[process].kernel == processes_[0].kernel && !processes_[0].kernel.empty();
      if (process == 0) clock.shared = true;
      if (!trips_[process].empty()) set_clock(clock, trips_[process]);
      gathered.clocks.push_back(clock);
    }
    for (const auto& rank : ranks_) {
      const int process = session_.topology().process_of(rank.rank);
      const std::int64_t offset = gathered.clocks[static_cast<std::size_t>(process)].offset;
      gathered.traces.push_back({runtime::RankId(rank.rank), records_of(rank.compute, offset), records_of(rank.checkpoint, offset)});
      gathered.processes.push_back(process);
      gathered.operations.push_back(rank.operations);
      gathered.resident_bytes.push_back(processes_[static_cast<std::size_t>(process)].resident);
    }
    return gathered;
  }

  Session& session_;
  Pipeline& pipeline_;
  const std::int64_t first_step_;
  const std::function<std::vector<OperationSum>(const Rank&)>& operations_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t sent_ = 0;  // when the newest ping left
  bool asked_ = false;
  std::size_t told_ = 0;
  std::vector<std::vector<RoundTrip>> trips_;  // by process
  std::vector<ProcessRecords> processes_;
  std::vector<RankRecords> ranks_;
};

}  // namespace

void set_clock(runtime::ProcessClock& clock, const std::vector<RoundTrip>& trips) {
  const auto best =
      std::min_element(trips.begin(), trips.end(), [](const auto& a, const auto& b) { return a.received - a.sent < b.received - b.sent; });
  clock.round_trip = best->received - best->sent;
  // The other's clock was read somewhere between: in the middle, give or take half.
  clock.measured = best->sent + clock.round_trip / 2 - best->there;
  clock.pings = static_cast<int>(trips.size());
  clock.offset = clock.shared ? 0 : clock.measured;
  clock.bound = clock.shared ? 0 : (clock.round_trip + 1) / 2;
}

std::optional<GatheredRecords> gather_records(Session& session, Pipeline& pipeline, std::int64_t first_step,
                                              const std::function<std::vector<OperationSum>(const Rank&)>& operations) {
  return Exchange(session, pipeline, first_step, operations).run();
}

}  // namespace millrace::actors
