#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/trace.hpp"

namespace millrace::runtime {

/// The composition of one rank's time in one step, in nanoseconds. The parts add up to `wall`.
///
///     compute     F, I, W and B
///     bubble      waits for an activation or a gradient until its producer had finished: the pipeline fills, drains or is uneven
///     transport   the rest of such a wait: the boundary was produced but had not arrived
///     credit      waits for a free slot of the output ring
///     exchange    waits inside of an action for rows of other ranks, which no compute has hidden
///     data        waits for the loader
///     reduction   waits for gradient sums and parameters of the ranks that hold the same weights
///     optimizer   gradient sums, their squares, optimizer step and snapshot
///     other       everything that no record covers: control messages, issue latency
///
/// If the producer's finish is not known (it ran on another host, whose clock differs), the whole wait counts as bubble.
struct StepBreakdown {
  std::int64_t wall = 0;
  std::int64_t compute = 0, bubble = 0, transport = 0, credit = 0, exchange = 0, data = 0, reduction = 0, optimizer = 0, other = 0;

  /// The fraction of a part in the wall time, 0 to 1; 0 for an empty step.
  [[nodiscard]] double share(std::int64_t part) const { return wall > 0 ? static_cast<double>(part) / static_cast<double>(wall) : 0.0; }
  StepBreakdown& operator+=(const StepBreakdown& more);
  friend bool operator==(const StepBreakdown&, const StepBreakdown&) = default;
};

/// A wait for a boundary, divided at its producer's finish: {until then, after}. `produced` = 0 means unknown: all of it is
/// before.
struct SplitWait {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
[[nodiscard]] SplitWait split_wait(std::int64_t begin, std::int64_t end, std::int64_t produced);

/// The breakdown of `step` from the records of one rank's compute lane. Wall is that of the record of kind `step`; without one,
/// first begin to last end. Time outside of it is not counted, nor are records of kind checkpoint_write, which belong to another
/// lane.
[[nodiscard]] StepBreakdown summarize(std::span<const TraceRecord> records, StepId step);

/// The sum over ranks: its fractions are the means over ranks, weighted by their wall times. For the log line.
[[nodiscard]] StepBreakdown sum(std::span<const StepBreakdown> ranks);

}  // namespace millrace::runtime
