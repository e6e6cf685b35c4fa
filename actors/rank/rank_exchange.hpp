#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/exchange/exchange.hpp"
#include "runtime/program/exchange.hpp"

namespace millrace::actors {

/// Passes what programs post on to the transport, with tables in bytes. Exchanges have numbers by the rank's list, counted over the run;
/// those that no member needs do not reach the transport, which numbers the others itself. Of one rank; posts are made by its worker only.
class RankExchange final : public runtime::ExchangePort, public cluster::ExchangeEvents {
 public:
  /// `members`: of the group, the rank among them as number `own`.
  RankExchange(int members, int own);
  /// `ranks`: the members, in their order. `events` hears of the ends of exchanges, by number. Both must outlive all work of the worker.
  void join(cluster::Exchange& exchange, std::vector<int> ranks, cluster::ExchangeEvents& events) {
    exchange_ = &exchange;
    ranks_ = std::move(ranks);
    events_ = &events;
  }

  /// The posts that follow have the numbers from `first` on, counted over the run.
  void begin(std::int64_t first) noexcept { next_ = first; }
  /// The number of the next post.
  [[nodiscard]] std::int64_t next() const noexcept { return next_; }
  void post(const runtime::ExchangePost& post) override;
  /// From the transport.
  void on_exchanged(int group, std::int64_t sequence) override;

  /// Rehearsals: the end of this exchange is reported at this time or later.
  void keep_until(std::int64_t sequence, std::chrono::steady_clock::time_point time) noexcept {
    kept_[static_cast<std::size_t>(sequence) % kept_.size()].store(time.time_since_epoch(), std::memory_order_release);
  }
  /// How long the end of this exchange, which is in, must still be kept. Any thread.
  [[nodiscard]] std::chrono::nanoseconds kept(std::int64_t sequence) const noexcept {
    const auto until = kept_[static_cast<std::size_t>(sequence) % kept_.size()].load(std::memory_order_acquire);
    return until - std::chrono::steady_clock::now().time_since_epoch();
  }

  /// Times and bytes of an exchange that has ended; valid until exchange `number` + 64 is posted. Nanoseconds of the host's steady clock.
  struct Transfer {
    std::int64_t begin = 0, end = 0;  // its post; its end
    std::int64_t bytes = 0;           // sent to other members
    bool used = false;                // false: no member needed it
  };
  [[nodiscard]] Transfer transfer(std::int64_t number) const noexcept;

  [[nodiscard]] std::size_t members() const noexcept { return ranks_.size(); }
  /// The ranks from which something of an exchange is missing: cluster::Exchange::missing(). Any thread, once the rank has joined.
  [[nodiscard]] std::vector<int> missing(std::int64_t number) const;

 private:
  struct Way {
    std::vector<std::int64_t> at, bytes;
  };
  [[nodiscard]] Transfer& transfer_of(std::int64_t number) noexcept {
    return transfers_[static_cast<std::size_t>(number) % transfers_.size()];
  }
  void divide(Way& way, const kernels::Tensor& tensor, std::span<const std::int32_t> table, bool ranges) const;
  static std::size_t place_of(std::int64_t sequence) noexcept {
    return static_cast<std::size_t>(sequence % cluster::Exchanges::max_outstanding);
  }

  const std::size_t own_;
  cluster::Exchange* exchange_ = nullptr;
  cluster::ExchangeEvents* events_ = nullptr;
  std::vector<int> ranks_;
  std::int64_t next_ = 0;
  std::atomic<std::int64_t> next_sequence_{0};                                            // of the transport
  std::array<std::atomic<std::int64_t>, cluster::Exchanges::max_outstanding> numbers_{};  // by sequence, of those under way
  Way out_, in_;
  // By number; more than are under way.
  std::array<std::atomic<std::chrono::nanoseconds>, 64> kept_{};
  std::array<Transfer, 64> transfers_{};
};

}  // namespace millrace::actors
