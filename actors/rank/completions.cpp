#include "actors/rank/completions.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/engine/trace.hpp"

namespace millrace::actors {

Completions::Completions(kernels::DeviceContext& context, std::size_t capacity) : context_(context) {
  for (Line& line : lines_) {
    line.entries.reserve(capacity);
    for (std::size_t i = 0; i < capacity; ++i) line.entries.emplace_back(context);
  }
  for (std::size_t i = 0; i <= lines_.size() * capacity; ++i) begins_.emplace_back(context, true);
}

Completions::Entry& Completions::next(Line& of) {
  MILLRACE_CHECK(of.size < of.entries.size(), ExitCode::internal, "actors.completions", "{} pieces of work are in progress already",
                 of.size);
  return of.entries[(of.head + of.size) % of.entries.size()];
}

void Completions::begin() {
  turn_ = (turn_ + 1) % begins_.size();
  begins_[turn_].record(context_, kernels::StreamKind::compute);
  begin_ = &begins_[turn_];
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
    throw Error(error.code(), fmt::format("{}: {}", entry.what, error.what()));
  }
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
      // The host observes an end some microseconds late: the next work on the device would seem to have begun before it.
      if (entry.begin != nullptr) {
        const auto took = static_cast<std::int64_t>(static_cast<double>(entry.end.since(*entry.begin)) * 1e6);
        completion.begin = std::max(completion.end - took, std::min(line.last_end, completion.end));
        line.last_end = completion.end;
      }
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
