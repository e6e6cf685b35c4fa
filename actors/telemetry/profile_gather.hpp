#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/rank/action_costs.hpp"
#include "actors/rank/operation_clock.hpp"
#include "actors/setup/session.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

class Pipeline;
class Rank;

/// The accumulated costs of a rank in a profiled run.
struct RankCosts {
  std::vector<OperationSum> operations;
  std::vector<ActionCost> actions;  // on a GPU
  std::int64_t launch_gaps = 0;     // ns that its GPU was idle between operations
  auto tie() { return std::tie(operations, actions, launch_gaps); }
};

/// A process's memory on a rank's GPU.
struct DeviceUse {
  std::int32_t device = -1;   // −1: none, and the rest is 0
  std::uint64_t planned = 0;  // planned bytes of the process's ranks on that GPU, with their queues
  std::uint64_t used = 0;     // increase of the memory in use since before the first of them was built, by any process
  auto tie() { return std::tie(device, planned, used); }
};

/// The records of all processes, in process 0. Indexed by rank unless stated otherwise.
struct GatheredRecords {
  std::vector<runtime::RankTrace> traces;     // in process 0's clock
  std::vector<runtime::ProcessClock> clocks;  // by process
  std::vector<int> processes;
  std::vector<RankCosts> costs;
  std::vector<std::uint64_t> resident_bytes;  // peak resident memory of the rank's process
  std::vector<DeviceUse> device_memory;
};

/// Number of pings to each other process; the smallest round trip gives the offset of its clock.
inline constexpr int clock_pings = 128;

/// Computes offset and bound from round trips: each is (sent, the other's clock, received); the smallest counts. `clock.offset`
/// is to be added to the other's times. At least one is needed.
struct RoundTrip {
  std::int64_t sent = 0, there = 0, received = 0;
};
void set_clock(runtime::ProcessClock& clock, const std::vector<RoundTrip>& trips);

/// One process's part in collecting the records over the control link; process 0 pings the other clocks. The ranks may be
/// running, and are not delayed.
class RecordGather {
 public:
  /// Returns the costs of a hosted rank; may be empty. Called in process 0 on the caller's thread, elsewhere on the control
  /// thread.
  using Costs = std::function<RankCosts(const Rank&)>;
  /// To be created in every process, before an agree() that precedes the first gather(). From then on it answers process 0. The
  /// pipeline must outlive it.
  RecordGather(Session& session, Pipeline& pipeline, Costs costs = {});
  ~RecordGather();
  RecordGather(const RecordGather&) = delete;
  RecordGather& operator=(const RecordGather&) = delete;

  /// In process 0, one call at a time: the records of step `first_step` (counted from 0) and later. Error(peer_lost) if a process
  /// does not answer within 30 s.
  [[nodiscard]] GatheredRecords gather(std::int64_t first_step);
  /// Collective: no further requests follow.
  void close();

  // The content of a message.
  struct RankRecords {
    std::int32_t gathering = 0, rank = 0;
    std::vector<std::uint64_t> compute, checkpoint, exchanges, transfers;  // records as words
    RankCosts costs;
    DeviceUse device;
    auto tie() { return std::tie(gathering, rank, compute, checkpoint, exchanges, transfers, costs, device); }
  };
  /// The last message of a process.
  struct ProcessRecords {
    std::int32_t gathering = 0;
    std::string host;
    std::string kernel;
    std::uint64_t resident = 0;
    auto tie() { return std::tie(gathering, host, kernel, resident); }
  };

 private:
  void receive(int process, std::uint16_t type, std::span<const std::byte> bytes);
  template <class Done>
  void wait_for(int process, const char* what, Done done);
  void ping(int process);
  std::vector<RankRecords> own_ranks(std::int64_t first_step);
  void take_own(std::int64_t first_step);
  void send_records(std::int32_t gathering, std::int64_t first_step);
  GatheredRecords merge();

  Session& session_;
  Pipeline& pipeline_;
  const Costs costs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int32_t gathering_ = 0;  // number of the newest gathering, from 1
  std::chrono::steady_clock::time_point deadline_;
  std::int64_t sent_ = 0;                      // when the newest ping was sent
  std::vector<bool> answered_;                 // by process
  std::vector<std::vector<RoundTrip>> trips_;  // by process
  std::vector<ProcessRecords> processes_;
  std::vector<RankRecords> ranks_;
};

/// Collective, after the ranks have stopped and before the pipeline is destroyed: collects everything at once. The result is in
/// process 0.
[[nodiscard]] std::optional<GatheredRecords> gather_records(Session& session, Pipeline& pipeline, std::int64_t first_step,
                                                            RecordGather::Costs costs = {});

}  // namespace millrace::actors
