#include "actors/rank/completions.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/without_component.hpp"
#include "runtime/engine/trace.hpp"

namespace millrace::actors {

Completions::Completions(kernels::DeviceContext& context, std::size_t capacity) : context_(context) {
  for (Line& line : lines_) {
    line.entries.reserve(capacity);
    for (std::size_t i = 0; i < capacity; ++i) line.entries.emplace_back(context);
  }
  for (std::size_t i = 0; i < lines_.size() * capacity + 2; ++i) begins_.emplace_back(context, true);
}

Completions::Entry& Completions::next(Line& of) {
  MILLRACE_CHECK(of.size < of.entries.size(), ExitCode::internal, "actors.completions", "{} pieces of work are in progress already",
                 of.size);
  return of.entries[(of.head + of.size) % of.entries.size()];
}

void Completions::begin() {
  ++begun_;
  begins_[begun_ % begins_.size()].record(context_, kernels::StreamKind::compute);
}

bool Completions::poll() {
  bool under_way = false;
  for (Line& line : lines_) under_way = poll(line) || under_way;
  return under_way;
}

bool Completions::complete(const Entry& entry) {
  try {
    return entry.end.complete();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", entry.what, without_component(error.what())));
  }
}

/// The device's clock counts from the line's first work on, and is the host's but for an offset. An end is observed late, by microseconds
/// or, if the worker was busy enqueuing, by more than a whole action: the offset is the least that was seen, and may grow slowly, since no
/// two clocks have the same rate.
void Completions::set_times(Line& line, const Entry& entry, Completion& completion) const {
  constexpr double drift = 1e-4, ns_of_ms = 1e6;
  const kernels::Event& begin = begin_of(entry.begin);
  const bool follows = line.begin != 0 && begun_ - line.begin < begins_.size();  // else the event was used again
  if (follows) line.device_begin += static_cast<double>(begin.since(begin_of(line.begin))) * ns_of_ms;
  const double took = static_cast<double>(entry.end.since(begin)) * ns_of_ms, device_end = line.device_begin + took;
  const double delay = static_cast<double>(completion.end) - device_end;
  line.offset = follows ? std::min(delay, line.offset + drift * std::max(device_end - line.device_end, 0.0)) : delay;
  line.begin = entry.begin;
  line.device_end = device_end;
  completion.end = static_cast<std::int64_t>(device_end + line.offset);
  completion.begin = std::max(completion.end - static_cast<std::int64_t>(took), std::min(line.last_end, completion.end));
  line.last_end = completion.end;
}

bool Completions::poll(Line& line) {
  while (line.size > 0) {
    Entry& entry = line.entries[line.head];
    Completion completion;
    std::optional<Error> error;
    try {
      if (!complete(entry)) return true;
      if (entry.whole) context_.check(entry.what);  // an error found by a kernel is reported for the work, not for a part of it
      completion.begin = completion.end = runtime::steady_now();
      if (entry.begin != 0) set_times(line, entry, completion);
    } catch (const Error& thrown) {
      completion.error = &error.emplace(thrown);
    }
    // The entry is freed before its body runs, since the body may enqueue more.
    auto storage = entry.storage;
    line.head = (line.head + 1) % line.entries.size();
    --line.size;
    entry.call(storage.data(), completion);
  }
  return false;
}

}  // namespace millrace::actors
