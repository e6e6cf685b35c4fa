#pragma once

#include <cstdint>

#include "runtime/engine/record_ring.hpp"
#include "runtime/ids.hpp"

namespace millrace::runtime {

/// What ranks that hold the same weights transfer: gradient sums, to those who own them; parameters, from those.
enum class TransferKind : std::uint8_t { reduction, gather };

/// A transfer of a rank with its replicas, from its post to its end. Times are nanoseconds of the host's steady clock.
struct TransferRecord {
  std::int64_t begin = 0;  // posted
  std::int64_t end = 0;    // all parts are in, and those for others have left
  std::int64_t bytes = 0;  // sent to other members
  StepId step = no_step;   // during whose list it was posted; of a gather after an update, of that step
  StageId stage = no_stage;
  std::int32_t bucket = 0;  // of the stage's gradients (ShardLayout::buckets)
  TransferKind kind = TransferKind::reduction;
  std::uint8_t experts = 0;  // 1: of weights of experts
  std::uint16_t unused = 0;  // keeps the record free of padding, since it is copied as words
  friend bool operator==(const TransferRecord&, const TransferRecord&) = default;
};
static_assert(sizeof(TransferRecord) == 40);

/// The transfers of a rank, in the order in which they were taken.
using TransferRing = RecordRing<TransferRecord>;

}  // namespace millrace::runtime
