#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/device_context.hpp"

namespace millrace::actors {

/// Enqueued work that has completed. Steady clock, nanoseconds.
struct Completion {
  std::int64_t begin = 0, end = 0;  // on a GPU: the device's times, in the host's clock
  const Error* error = nullptr;     // the error with which the work failed
};

/// Callbacks for work that a rank has enqueued on its GPU, without waiting for the device: each entry is an event in a stream,
/// and what to do when the device has reached it. Entries complete in the order in which they were added, except those of the
/// background stream, which have an order of their own. Allocates nothing after the constructor. Thread: the rank's worker.
class Completions {
 public:
  explicit Completions(kernels::DeviceContext& context, std::size_t capacity = 64);

  /// Everything enqueued from here up to the next `add` is one piece of work: its device time begins here, on the compute stream.
  void begin();
  /// Calls `body(const Completion&)` when everything enqueued on the stream so far is done. `what` is used in the message if the
  /// device fails, and must outlive the entry.
  template <class Body>
  void add(kernels::StreamKind lane, const char* what, const Body& body) {
    put(lane, what, true, body);
  }
  /// The same in the middle of a piece of work; without times.
  template <class Body>
  void add_part(kernels::StreamKind lane, const char* what, const Body& body) {
    put(lane, what, false, body);
  }
  /// Calls the bodies of completed entries. Returns whether some entries are not complete.
  bool poll();

 private:
  template <class Body>
  void put(kernels::StreamKind lane, const char* what, bool whole, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= Entry::room, "capture pointers and small structs");
    Line& of = line(lane);
    Entry& entry = next(of);
    entry.what = what;
    new (entry.storage.data()) Body(body);
    entry.call = [](std::byte* storage, const Completion& completion) { (*std::launder(reinterpret_cast<Body*>(storage)))(completion); };
    entry.whole = whole;
    entry.begin = whole ? begun_ : 0;
    entry.end.record(context_, lane);
    ++of.size;
  }

  struct Entry {
    static constexpr std::size_t room = 160;
    explicit Entry(kernels::DeviceContext& context) : end(context, true) {}
    bool whole = true;      // if false: a part of a piece of work
    std::size_t begin = 0;  // which call of begin() began the work, from 1; 0: its times are not needed
    kernels::Event end;
    const char* what = "";
    alignas(std::max_align_t) std::array<std::byte, room> storage;
    void (*call)(std::byte*, const Completion&) = nullptr;
  };
  /// Entries in order: a ring.
  struct Line {
    std::vector<Entry> entries;
    std::size_t head = 0, size = 0;
    std::int64_t last_end = 0;  // as reported
    // In the device's time, ns since the begin of the first work:
    std::size_t begin = 0;  // of the last work that was observed, as Entry::begin
    double device_begin = 0, device_end = 0;
    double offset = 0;  // what is added to get the host's time
  };
  [[nodiscard]] Line& line(kernels::StreamKind lane) noexcept { return lines_[lane == kernels::StreamKind::background ? 1 : 0]; }
  Entry& next(Line& of);
  bool poll(Line& line);
  [[nodiscard]] static bool complete(const Entry& entry);
  void set_times(Line& line, const Entry& entry, Completion& completion) const;
  [[nodiscard]] const kernels::Event& begin_of(std::size_t call) const { return begins_[call % begins_.size()]; }

  kernels::DeviceContext& context_;
  std::array<Line, 2> lines_;
  std::vector<kernels::Event> begins_;  // used in turn: more than there can be entries
  std::size_t begun_ = 0;               // calls of begin()
};

}  // namespace millrace::actors
