#pragma once

#include <array>
#include <cstdint>

#include "runtime/engine/record_ring.hpp"
#include "runtime/ids.hpp"
#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// An exchange of a rank, from its post to its end. Times are nanoseconds of the host's steady clock. A round that no member needs leaves
/// no record.
struct ExchangeRecord {
  std::int64_t begin = 0;  // posted
  std::int64_t end = 0;    // the rows of all members are in, and those for them have left
  std::int64_t bytes = 0;  // sent to other members
  StepId step = no_step;
  StageId stage = no_stage;
  MicrobatchId microbatch = no_microbatch;
  std::int32_t number = 0;  // among the exchanges of its action, in the order in which they are posted
  ActionKind action = ActionKind::forward;
  std::array<std::uint8_t, 7> unused{};  // keeps the record free of padding, since it is copied as words
  friend bool operator==(const ExchangeRecord&, const ExchangeRecord&) = default;
};
static_assert(sizeof(ExchangeRecord) == 48);

/// The exchanges of a rank, in the order in which they ended. Each exchange is awaited by one segment, so this ring reaches at least
/// as far back as the trace.
using ExchangeRing = RecordRing<ExchangeRecord>;

}  // namespace millrace::runtime
