#pragma once

#include <array>
#include <cstdint>

#include "runtime/engine/record_ring.hpp"
#include "runtime/engine/wait.hpp"
#include "runtime/schedule/action.hpp"

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
  std::uint16_t segment = 0;                // of the action, where exchanges divide it; wait: the one that could not begin
  ActionKind action = ActionKind::forward;  // wait: the kind of the action that could not begin or go on
  std::array<std::uint8_t, 3> unused{};     // keeps the record free of padding, since it is copied as words
  friend bool operator==(const TraceRecord&, const TraceRecord&) = default;
};
static_assert(sizeof(TraceRecord) == 48);

/// The trace of one lane: a rank's compute worker, or its checkpoint lane.
using TraceRing = RecordRing<TraceRecord>;

}  // namespace millrace::runtime
