#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

/// A ring with the newest records of something that is always recorded. One thread adds, any thread may take a snapshot at the same time;
/// neither ever waits, and adding allocates nothing. A record is copied as 64-bit words, so it must have no padding.
template <class Record>
class RecordRing {
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(std::uint64_t) == 0);

 public:
  static constexpr std::size_t default_capacity = 65'536;  // 3 MiB of records of 48 bytes

  /// `capacity` must be a power of two, at least 2, else Error(internal).
  explicit RecordRing(std::size_t capacity = default_capacity) : capacity_(capacity) {
    MILLRACE_CHECK(capacity >= 2 && std::has_single_bit(capacity), ExitCode::internal, "runtime.engine",
                   "a ring of {} records, expected a power of two", capacity);
    slots_ = std::make_unique<Slot[]>(capacity);
  }

  /// Writer only.
  void add(const Record& record) noexcept {
    if (!keeps_.load(std::memory_order_relaxed)) return;
    // begun_ is incremented before the first word changes. A reader that has seen a new word (acquire of a release) therefore also
    // sees the new begun_ and discards that record: no fences are needed, which ThreadSanitizer would not understand.
    const std::uint64_t number = begun_.load(std::memory_order_relaxed);
    begun_.store(number + 1, std::memory_order_relaxed);
    const auto values = std::bit_cast<std::array<std::uint64_t, words>>(record);
    Slot& slot = slots_[number & (capacity_ - 1)];
    for (std::size_t word = 0; word < words; ++word) slot[word].store(values[word], std::memory_order_release);
    written_.store(number + 1, std::memory_order_release);
  }

  /// Whether add() stores its records; enabled from the start. For measuring the cost of the ring. Any thread.
  void keep(bool records) noexcept { keeps_.store(records, std::memory_order_relaxed); }

  /// Number of records added since the beginning.
  [[nodiscard]] std::uint64_t count() const noexcept { return written_.load(std::memory_order_acquire); }

  /// The records from number `from` on that the ring still has, oldest first. Records that the writer replaces meanwhile are
  /// omitted. `first` (optional) gets the number of the first one returned.
  [[nodiscard]] std::vector<Record> snapshot(std::uint64_t from = 0, std::uint64_t* first = nullptr) const {
    std::vector<Record> records;
    snapshot_into(records, from, first);
    return records;
  }

  /// The same into `records`, whose memory is reused.
  void snapshot_into(std::vector<Record>& records, std::uint64_t from = 0, std::uint64_t* first = nullptr) const {
    const std::uint64_t end = written_.load(std::memory_order_acquire);
    std::uint64_t begin = std::max(from, end > capacity_ ? end - capacity_ : 0);
    begin = std::min(begin, end);
    records.clear();
    records.reserve(end - begin);
    for (std::uint64_t number = begin; number < end; ++number) {
      std::array<std::uint64_t, words> values;
      const Slot& slot = slots_[number & (capacity_ - 1)];
      for (std::size_t word = 0; word < words; ++word) values[word] = slot[word].load(std::memory_order_acquire);
      records.push_back(std::bit_cast<Record>(values));
    }
    // Record n is overwritten by record n + capacity, so it is intact only if writing that one had not begun.
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    const std::uint64_t whole = begun > capacity_ ? std::min(std::max(begin, begun - capacity_), end) : begin;
    records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(whole - begin));
    if (first) *first = whole;
  }

 private:
  static constexpr std::size_t words = sizeof(Record) / sizeof(std::uint64_t);
  using Slot = std::array<std::atomic<std::uint64_t>, words>;

  std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<bool> keeps_{true};
  std::atomic<std::uint64_t> begun_{0};    // number of records whose writing has begun
  std::atomic<std::uint64_t> written_{0};  // number of complete records
};

}  // namespace millrace::runtime
