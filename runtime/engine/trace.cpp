#include "runtime/engine/trace.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

std::int64_t steady_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

const char* to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return "forward";
    case SpanKind::input_gradient:
      return "input_gradient";
    case SpanKind::weight_gradient:
      return "weight_gradient";
    case SpanKind::backward:
      return "backward";
    case SpanKind::optimizer:
      return "optimizer";
    case SpanKind::snapshot:
      return "snapshot";
    case SpanKind::checkpoint_write:
      return "checkpoint_write";
    case SpanKind::wait:
      return "wait";
    case SpanKind::step:
      return "step";
  }
  return "?";
}

SpanKind span_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return SpanKind::forward;
    case ActionKind::input_gradient:
      return SpanKind::input_gradient;
    case ActionKind::weight_gradient:
      return SpanKind::weight_gradient;
    case ActionKind::backward:
      return SpanKind::backward;
  }
  return SpanKind::wait;
}

TraceRing::TraceRing(std::size_t capacity) : capacity_(capacity) {
  MILLRACE_CHECK(capacity >= 2 && std::has_single_bit(capacity), ExitCode::internal, "runtime.engine",
                 "a trace ring of {} records, expected a power of two", capacity);
  slots_ = std::make_unique<Slot[]>(capacity);
}

// begun_ is incremented before the first word changes. A reader that has seen a new word (acquire of a release) therefore also
// sees the new begun_ and discards that record: no fences are needed, which ThreadSanitizer would not understand.
void TraceRing::add(const TraceRecord& record) noexcept {
  if (!keeps_.load(std::memory_order_relaxed)) return;
  const std::uint64_t number = begun_.load(std::memory_order_relaxed);
  begun_.store(number + 1, std::memory_order_relaxed);
  const auto values = std::bit_cast<std::array<std::uint64_t, words>>(record);
  Slot& slot = slots_[number & (capacity_ - 1)];
  for (std::size_t word = 0; word < words; ++word) slot[word].store(values[word], std::memory_order_release);
  written_.store(number + 1, std::memory_order_release);
}

std::vector<TraceRecord> TraceRing::snapshot(std::uint64_t from, std::uint64_t* first) const {
  std::vector<TraceRecord> records;
  snapshot_into(records, from, first);
  return records;
}

void TraceRing::snapshot_into(std::vector<TraceRecord>& records, std::uint64_t from, std::uint64_t* first) const {
  const std::uint64_t end = written_.load(std::memory_order_acquire);
  std::uint64_t begin = std::max(from, end > capacity_ ? end - capacity_ : 0);
  begin = std::min(begin, end);
  records.clear();
  records.reserve(end - begin);
  for (std::uint64_t number = begin; number < end; ++number) {
    std::array<std::uint64_t, words> values;
    const Slot& slot = slots_[number & (capacity_ - 1)];
    for (std::size_t word = 0; word < words; ++word) values[word] = slot[word].load(std::memory_order_acquire);
    records.push_back(std::bit_cast<TraceRecord>(values));
  }
  // Record n is overwritten by record n + capacity, so it is intact only if writing that one had not begun.
  const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
  const std::uint64_t whole = begun > capacity_ ? std::min(std::max(begin, begun - capacity_), end) : begin;
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(whole - begin));
  if (first) *first = whole;
}

}  // namespace millrace::runtime
