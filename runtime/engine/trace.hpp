#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/wait.hpp"

namespace millrace::runtime {

/// What a rank spent a stretch of time on.
enum class SpanKind : std::uint8_t {
  forward,
  input_gradient,
  weight_gradient,
  backward,
  optimizer,         // the update, and before it what it takes: gradient sums and their squares
  snapshot,          // copying parameters and moments for a checkpoint
  checkpoint_write,  // on the checkpoint lane, beside the compute worker
  wait,              // the compute worker had nothing: reason and peer tell why
  step,              // the whole step, from the order to run it to the last report
};

[[nodiscard]] const char* to_string(SpanKind kind);
[[nodiscard]] SpanKind span_of(ActionKind kind);

/// Nanoseconds of the host's steady clock: the time of all records.
[[nodiscard]] std::int64_t steady_now();

/// As people read it.
[[nodiscard]] constexpr double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

/// One stretch of time of one rank. Times are nanoseconds of the host's steady clock.
struct TraceRecord {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// wait for a token: when its producer finished, by the same clock; 0 where that is not known (another host).
  std::int64_t produced = 0;
  StepId step = no_step;
  StageId stage = no_stage;
  MicrobatchId microbatch = no_microbatch;
  RankId peer = no_rank;  // wait: whose token or slot
  SpanKind kind = SpanKind::wait;
  WaitReason reason = WaitReason::none;
  std::array<std::uint8_t, 6> unused{};  // keeps the record free of padding: it is copied as words
  friend bool operator==(const TraceRecord&, const TraceRecord&) = default;
};
static_assert(sizeof(TraceRecord) == 48);

/// The always-on trace of one lane (a rank's compute worker, or its checkpoint lane): a ring that keeps the newest records.
/// One thread adds, any thread may take a snapshot at the same time; neither ever waits, adding allocates nothing.
class TraceRing {
 public:
  static constexpr std::size_t default_capacity = 65'536;  // 3 MiB

  /// `capacity` is a power of two, 2 or more; Error(internal) otherwise.
  explicit TraceRing(std::size_t capacity = default_capacity);

  /// Writer only.
  void add(const TraceRecord& record) noexcept;

  /// Whether add() keeps what it is given; it does from the start. For measuring what the ring costs. Any thread.
  void keep(bool records) noexcept { keeps_.store(records, std::memory_order_relaxed); }

  /// Records added since the beginning.
  [[nodiscard]] std::uint64_t count() const noexcept { return written_.load(std::memory_order_acquire); }

  /// The records number `from` and later that the ring still has, oldest first. Those that the writer replaces meanwhile are left out
  /// whole. `first` (optional) gets the number of the first one returned.
  [[nodiscard]] std::vector<TraceRecord> snapshot(std::uint64_t from = 0, std::uint64_t* first = nullptr) const;
  /// The same into `records`, whose room is used again.
  void snapshot_into(std::vector<TraceRecord>& records, std::uint64_t from = 0, std::uint64_t* first = nullptr) const;

 private:
  static constexpr std::size_t words = sizeof(TraceRecord) / sizeof(std::uint64_t);
  using Slot = std::array<std::atomic<std::uint64_t>, words>;

  std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<bool> keeps_{true};
  std::atomic<std::uint64_t> begun_{0};    // records whose writing has begun
  std::atomic<std::uint64_t> written_{0};  // records that are whole
};

}  // namespace millrace::runtime
