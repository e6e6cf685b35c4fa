#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/wait.hpp"

namespace millrace::runtime {

/// What a rank spent a period of time on.
enum class SpanKind : std::uint8_t {
  forward,
  input_gradient,
  weight_gradient,
  backward,
  optimizer,         // the update, and before it the gradient sums and their squares
  snapshot,          // copying parameters and optimizer states for a checkpoint
  checkpoint_write,  // on the checkpoint lane, concurrently with the compute worker
  wait,              // the compute worker had nothing to do, for `reason` and `peer`
  step,              // the whole step, from the order to run it to the last report
};

[[nodiscard]] const char* to_string(SpanKind kind);
[[nodiscard]] SpanKind span_of(ActionKind kind);

/// Nanoseconds of the host's steady clock: the time base of all records.
[[nodiscard]] std::int64_t steady_now();

/// Converts to milliseconds.
[[nodiscard]] constexpr double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

/// One period of time of one rank. Times are nanoseconds of the host's steady clock.
struct TraceRecord {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// For a wait for a boundary: when its producer finished, by the same clock; 0 if unknown (another host).
  std::int64_t produced = 0;
  StepId step = no_step;
  StageId stage = no_stage;
  MicrobatchId microbatch = no_microbatch;
  RankId peer = no_rank;  // wait: the rank whose boundary or slot is missing
  SpanKind kind = SpanKind::wait;
  WaitReason reason = WaitReason::none;
  std::uint16_t segment = 0;             // of the action, where exchanges divide it
  std::array<std::uint8_t, 4> unused{};  // keeps the record free of padding, since it is copied as words
  friend bool operator==(const TraceRecord&, const TraceRecord&) = default;
};
static_assert(sizeof(TraceRecord) == 48);

/// The always-on trace of one lane (a rank's compute worker, or its checkpoint lane): a ring with the newest records. One thread
/// adds, any thread may take a snapshot at the same time; neither ever waits, and adding allocates nothing.
class TraceRing {
 public:
  static constexpr std::size_t default_capacity = 65'536;  // 3 MiB

  /// `capacity` must be a power of two, at least 2, else Error(internal).
  explicit TraceRing(std::size_t capacity = default_capacity);

  /// Writer only.
  void add(const TraceRecord& record) noexcept;

  /// Whether add() stores its records; enabled from the start. For measuring the cost of the ring. Any thread.
  void keep(bool records) noexcept { keeps_.store(records, std::memory_order_relaxed); }

  /// Number of records added since the beginning.
  [[nodiscard]] std::uint64_t count() const noexcept { return written_.load(std::memory_order_acquire); }

  /// The records from number `from` on that the ring still has, oldest first. Records that the writer replaces meanwhile are
  /// omitted. `first` (optional) gets the number of the first one returned.
  [[nodiscard]] std::vector<TraceRecord> snapshot(std::uint64_t from = 0, std::uint64_t* first = nullptr) const;
  /// The same into `records`, whose memory is reused.
  void snapshot_into(std::vector<TraceRecord>& records, std::uint64_t from = 0, std::uint64_t* first = nullptr) const;

 private:
  static constexpr std::size_t words = sizeof(TraceRecord) / sizeof(std::uint64_t);
  using Slot = std::array<std::atomic<std::uint64_t>, words>;

  std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<bool> keeps_{true};
  std::atomic<std::uint64_t> begun_{0};    // number of records whose writing has begun
  std::atomic<std::uint64_t> written_{0};  // number of complete records
};

}  // namespace millrace::runtime
