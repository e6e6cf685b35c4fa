#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::actors {

/// Tracks which microbatches' tokens are in a ring of batch slots: those of the rank, numbered without gaps over the whole run, loaded in
/// order, released in order. Pure bookkeeping.
class BatchWindow {
 public:
  explicit BatchWindow(int slots, std::int64_t first = 0) : slots_(slots), requested_(first), loaded_(first), released_(first) {}

  [[nodiscard]] int slot(std::int64_t number) const noexcept { return static_cast<int>(number % slots_); }
  [[nodiscard]] bool room() const noexcept { return requested_ < released_ + slots_; }
  [[nodiscard]] std::int64_t requested() const noexcept { return requested_; }
  [[nodiscard]] std::int64_t loaded() const noexcept { return loaded_; }
  /// The next microbatch to request from the loader.
  std::int64_t request() noexcept { return requested_++; }
  void loaded_one() noexcept { ++loaded_; }
  void release_one() noexcept { ++released_; }

  /// Begins a list; `uses` has the number of its actions on each microbatch.
  void begin(std::span<const int> uses) { uses_.assign(uses.begin(), uses.end()), next_ = 0; }
  /// An action on the list's microbatch in this place among those of the rank is done: releases what no further action of the list reads.
  void used(std::size_t microbatch) {
    --uses_[microbatch];
    while (next_ < uses_.size() && uses_[next_] == 0) {
      ++next_;
      release_one();
    }
  }

 private:
  int slots_;
  std::int64_t requested_, loaded_, released_;
  std::vector<int> uses_;
  std::size_t next_ = 0;
};

}  // namespace millrace::actors
