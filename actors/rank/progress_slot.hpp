#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <thread>

#include "cluster/control/control_link.hpp"

namespace millrace::actors {

/// The newest Progress of one rank. One thread at a time writes and never waits; any thread may read, and retries if the value
/// was replaced meanwhile. Unlike with a lock, a reader cannot delay the writer.
class ProgressSlot {
 public:
  struct Reading {
    cluster::Progress progress;
    std::int64_t since = 0;     // when the current activity began, by the steady clock of this host; 0: nothing was written yet
    std::int64_t reported = 0;  // when this value was written
  };

  void write(const Reading& reading) noexcept {
    const std::uint64_t number = begun_.load(std::memory_order_relaxed);
    begun_.store(number + 1, std::memory_order_relaxed);
    const auto values = std::bit_cast<Words>(reading);
    // Release order: a reader that sees a new word also sees the new begun_ (as in TraceRing).
    for (std::size_t word = 0; word < values.size(); ++word) words_[word].store(values[word], std::memory_order_release);
    written_.store(number + 1, std::memory_order_release);
  }

  [[nodiscard]] Reading read() const noexcept {
    while (true) {
      const std::uint64_t number = written_.load(std::memory_order_acquire);
      Words values;
      for (std::size_t word = 0; word < values.size(); ++word) values[word] = words_[word].load(std::memory_order_acquire);
      if (begun_.load(std::memory_order_relaxed) == number) return number == 0 ? Reading() : std::bit_cast<Reading>(values);
      std::this_thread::yield();
    }
  }

 private:
  using Words = std::array<std::uint64_t, sizeof(Reading) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Words) == sizeof(Reading) && std::has_unique_object_representations_v<Reading>);
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words_{};
  std::atomic<std::uint64_t> begun_{0}, written_{0};
};

}  // namespace millrace::actors
