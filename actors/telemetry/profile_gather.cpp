#include "actors/telemetry/profile_gather.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <fstream>
#include <utility>

#include "actors/messages/wire.hpp"
#include "actors/pipeline.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

constexpr const char* profile_gather_component = "actors.profile";
constexpr std::chrono::seconds patience{30};

// Message types on the control link, beside to_ranks_type and to_coordinator_type.
constexpr std::uint16_t ping_type = 16, pong_type = 17, ask_type = 18, rank_type = 19, process_type = 20;

template <class Record>
using RecordWords = std::array<std::uint64_t, sizeof(Record) / sizeof(std::uint64_t)>;

constexpr std::array message_types = {ping_type, pong_type, ask_type, rank_type, process_type};

// Every message has the number of its gathering, since an answer to an abandoned one may still arrive.
struct Ping {
  std::int32_t gathering = 0, number = 0;
  std::int64_t there = 0;
  auto tie() { return std::tie(gathering, number, there); }
};

struct Ask {
  std::int32_t gathering = 0;
  std::int64_t first_step = 0;
  auto tie() { return std::tie(gathering, first_step); }
};

/// Identifies the running kernel: processes on the same kernel share a steady clock, whatever their hosts are called.
std::string kernel_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

RecordGather::ProcessRecords this_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {0, cluster::host_name(), kernel_id(), static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

/// `ranks`: those of the process, in the order in which they were built.
DeviceUse device_use(const Rank& rank, const std::vector<Rank*>& ranks) {
  DeviceUse use;
  const auto& type = kernels::device_type(rank.device());
  if (!type.facts().numbered) return use;
  use.device = rank.device().index;
  std::optional<std::size_t> before;
  for (const Rank* other : ranks) {
    if (!(other->device() == rank.device())) continue;
    use.planned += other->planned_bytes();
    if (!before) before = other->device_used_before();
  }
  const std::size_t now = type.memory_in_use(rank.device()).used;
  use.used = now - std::min(now, *before);
  return use;
}

template <class Record>
std::vector<std::uint64_t> words_of(const runtime::RecordRing<Record>& ring, std::int64_t first_step) {
  std::vector<std::uint64_t> words;
  for (const auto& record : ring.snapshot()) {
    if (record.step.value < first_step) continue;
    const auto parts = std::bit_cast<RecordWords<Record>>(record);
    words.insert(words.end(), parts.begin(), parts.end());
  }
  return words;
}

void move_times(runtime::TraceRecord& record, std::int64_t offset) {
  record.begin += offset;
  record.end += offset;
  if (record.produced != 0) record.produced += offset;  // of the same clock, or unknown
}
template <class Record>
void move_times(Record& record, std::int64_t offset) {
  record.begin += offset;
  record.end += offset;
}

/// Converts records to process 0's clock.
template <class Record>
std::vector<Record> records_of(const std::vector<std::uint64_t>& words, std::int64_t offset) {
  RecordWords<Record> parts;
  MILLRACE_CHECK(words.size() % parts.size() == 0, ExitCode::internal, profile_gather_component,
                 "{} words of records, expected a multiple of {}", words.size(), parts.size());
  std::vector<Record> records;
  for (std::size_t at = 0; at < words.size(); at += parts.size()) {
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(at), parts.size(), parts.begin());
    move_times(records.emplace_back(std::bit_cast<Record>(parts)), offset);
  }
  return records;
}

}  // namespace

void set_clock(runtime::ProcessClock& clock, const std::vector<RoundTrip>& trips) {
  const auto best =
      std::min_element(trips.begin(), trips.end(), [](const auto& a, const auto& b) { return a.received - a.sent < b.received - b.sent; });
  clock.round_trip = best->received - best->sent;
  // The other clock was read between sending and receiving: in the middle, plus or minus half of the round trip.
  clock.measured = best->sent + clock.round_trip / 2 - best->there;
  clock.pings = static_cast<int>(trips.size());
  clock.offset = clock.shared ? 0 : clock.measured;
  clock.bound = clock.shared ? 0 : (clock.round_trip + 1) / 2;
}

RecordGather::RecordGather(Session& session, Pipeline& pipeline, Costs costs)
    : session_(session), pipeline_(pipeline), costs_(std::move(costs)) {
  const auto processes = static_cast<std::size_t>(session.topology().processes());
  trips_.resize(processes);
  processes_.resize(processes);
  ranks_.resize(static_cast<std::size_t>(session.topology().ranks()));
  for (const auto type : message_types)
    session_.on_message(type, [this](int from, std::uint16_t kind, std::span<const std::byte> bytes) { receive(from, kind, bytes); });
}

RecordGather::~RecordGather() {
  for (const auto type : message_types) session_.on_message(type, nullptr);
}

GatheredRecords RecordGather::gather(std::int64_t first_step) {
  const int processes = session_.topology().processes();
  deadline_ = std::chrono::steady_clock::now() + patience;
  {
    const std::lock_guard lock(mutex_);
    ++gathering_;
    for (auto& trips : trips_) trips.clear();
    answered_.assign(trips_.size(), false);
  }
  for (int process = 1; process < processes; ++process) ping(process);
  take_own(first_step);
  Ask ask{gathering_, first_step};
  for (int process = 1; process < processes; ++process) session_.control().send(process, ask_type, encode(ask));
  for (int process = 1; process < processes; ++process)
    wait_for(process, "its records", [this, process] { return answered_[static_cast<std::size_t>(process)]; });
  return merge();
}

void RecordGather::close() { session_.control().agree({{"records", "done"}}); }

/// Runs on the control thread.
void RecordGather::receive(int process, std::uint16_t type, std::span<const std::byte> bytes) {
  if (type == ping_type) {
    Ping ping;
    decode(bytes, ping);
    ping.there = runtime::steady_now();
    return session_.control().send(process, pong_type, encode(ping));
  }
  if (type == ask_type) {
    Ask ask;
    decode(bytes, ask);
    return send_records(ask.gathering, ask.first_step);
  }
  const std::lock_guard lock(mutex_);
  const auto from = static_cast<std::size_t>(process);
  if (type == pong_type) {
    Ping ping;
    decode(bytes, ping);
    if (ping.gathering != gathering_) return;
    trips_[from].push_back({sent_, ping.there, runtime::steady_now()});
  } else if (type == rank_type) {
    RankRecords rank;
    decode(bytes, rank);
    if (rank.gathering != gathering_) return;
    const auto place = static_cast<std::size_t>(rank.rank);
    ranks_.at(place) = std::move(rank);
  } else if (type == process_type) {
    ProcessRecords records;
    decode(bytes, records);
    if (records.gathering != gathering_) return;
    processes_[from] = std::move(records);
    answered_[from] = true;
  }
  changed_.notify_all();
}

template <class Done>
void RecordGather::wait_for(int process, const char* what, Done done) {
  std::unique_lock lock(mutex_);
  MILLRACE_CHECK(changed_.wait_until(lock, deadline_, done), ExitCode::peer_lost, profile_gather_component,
                 "process {} has not sent {} within {} s", process, what, patience.count());
}

void RecordGather::ping(int process) {
  for (int number = 0; number < clock_pings; ++number) {
    {
      const std::lock_guard lock(mutex_);
      sent_ = runtime::steady_now();
    }
    Ping ping{gathering_, number, 0};
    session_.control().send(process, ping_type, encode(ping));
    wait_for(process, "an answer to a ping",
             [&] { return trips_[static_cast<std::size_t>(process)].size() > static_cast<std::size_t>(number); });
  }
}

std::vector<RecordGather::RankRecords> RecordGather::own_ranks(std::int64_t first_step) {
  std::vector<RankRecords> records;
  for (Rank* rank : pipeline_.ranks()) {
    RankRecords own;
    own.rank = rank->id().value;
    own.compute = words_of(rank->trace(), first_step);
    own.exchanges = words_of(rank->exchange_trace(), first_step);
    if (const ReplicaExchange* replicas = std::as_const(*rank).replicas()) own.transfers = words_of(replicas->trace(), first_step);
    if (records.empty()) own.checkpoint = words_of(pipeline_.checkpoint_trace(), first_step);
    if (costs_) own.costs = costs_(*rank);
    own.device = device_use(*rank, pipeline_.ranks());
    records.push_back(std::move(own));
  }
  return records;
}

void RecordGather::take_own(std::int64_t first_step) {
  auto own = own_ranks(first_step);
  const std::lock_guard lock(mutex_);
  for (auto& rank : own) {
    const auto place = static_cast<std::size_t>(rank.rank);
    ranks_[place] = std::move(rank);
  }
  processes_[0] = this_process();
}

void RecordGather::send_records(std::int32_t gathering, std::int64_t first_step) {
  for (auto& rank : own_ranks(first_step)) {
    rank.gathering = gathering;
    session_.control().send(0, rank_type, encode(rank));
  }
  auto process = this_process();
  process.gathering = gathering;
  session_.control().send(0, process_type, encode(process));
}

GatheredRecords RecordGather::merge() {
  const std::lock_guard lock(mutex_);
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
    gathered.traces.push_back({runtime::RankId(rank.rank), records_of<runtime::TraceRecord>(rank.compute, offset),
                               records_of<runtime::TraceRecord>(rank.checkpoint, offset),
                               records_of<runtime::ExchangeRecord>(rank.exchanges, offset),
                               records_of<runtime::TransferRecord>(rank.transfers, offset)});
    gathered.processes.push_back(process);
    gathered.costs.push_back(rank.costs);
    gathered.device_memory.push_back(rank.device);
    gathered.resident_bytes.push_back(processes_[static_cast<std::size_t>(process)].resident);
  }
  return gathered;
}

std::optional<GatheredRecords> gather_records(Session& session, Pipeline& pipeline, std::int64_t first_step, RecordGather::Costs costs) {
  RecordGather gather(session, pipeline, std::move(costs));
  session.control().agree({{"records", "expected"}});  // every process listens before any process sends
  std::optional<GatheredRecords> gathered;
  if (session.leads()) gathered = gather.gather(first_step);
  gather.close();
  return gathered;
}

}  // namespace millrace::actors
