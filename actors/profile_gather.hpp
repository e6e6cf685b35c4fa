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

#include "actors/operation_clock.hpp"
#include "actors/session.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

class Pipeline;
class Rank;

/// What the processes' ranks have recorded, in process 0. By rank, unless it says otherwise.
struct GatheredRecords {
  std::vector<runtime::RankTrace> traces;     // by process 0's clock
  std::vector<runtime::ProcessClock> clocks;  // by process
  std::vector<int> processes;
  std::vector<std::vector<OperationSum>> operations;
  std::vector<std::uint64_t> resident_bytes;  // most that the rank's process has had
};

/// Pings to each other process, whose smallest round trip gives the offset of its clock.
inline constexpr int kClockPings = 128;

/// Offset and bound from round trips: each is (sent, the other's clock, received); the smallest counts. `clock.offset` is what to add to
/// the other's times. At least one.
struct RoundTrip {
  std::int64_t sent = 0, there = 0, received = 0;
};
void set_clock(runtime::ProcessClock& clock, const std::vector<RoundTrip>& trips);

/// One process's part in bringing the records together over the control link; process 0 pings the others' clocks. The ranks may be running:
/// nobody waits for it.
class RecordGather {
 public:
  /// Tells of a hosted rank; may be empty. In process 0 on the caller's thread, elsewhere on the control thread.
  using Operations = std::function<std::vector<OperationSum>(const Rank&)>;
  /// In every process, before an agree() that comes before the first gather(). Answers process 0 from then on. The pipeline outlives it.
  RecordGather(Session& session, Pipeline& pipeline, Operations operations = {});
  ~RecordGather();
  RecordGather(const RecordGather&) = delete;
  RecordGather& operator=(const RecordGather&) = delete;

  /// In process 0, one call at a time: what the rings have of step `first_step` (counted from 0) and later. Error(peer_lost) where a
  /// process does not answer within 30 s.
  [[nodiscard]] GatheredRecords gather(std::int64_t first_step);
  /// Collective: nobody will be asked any more.
  void close();

  // What travels.
  struct RankRecords {
    std::int32_t gathering = 0, rank = 0;
    std::vector<std::uint64_t> compute, checkpoint;  // records as words
    std::vector<OperationSum> operations;
    auto tie() { return std::tie(gathering, rank, compute, checkpoint, operations); }
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
  void tell(std::int32_t gathering, std::int64_t first_step);
  GatheredRecords merge();

  Session& session_;
  Pipeline& pipeline_;
  const Operations operations_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int32_t gathering_ = 0;  // the number of the newest, from 1
  std::chrono::steady_clock::time_point deadline_;
  std::int64_t sent_ = 0;                      // when the newest ping left
  std::vector<bool> told_;                     // by process
  std::vector<std::vector<RoundTrip>> trips_;  // by process
  std::vector<ProcessRecords> processes_;
  std::vector<RankRecords> ranks_;
};

/// Collective, when the ranks have stopped and before the pipeline goes: the whole of it at once. Result in process 0.
[[nodiscard]] std::optional<GatheredRecords> gather_records(Session& session, Pipeline& pipeline, std::int64_t first_step,
                                                            RecordGather::Operations operations = {});

}  // namespace millrace::actors
