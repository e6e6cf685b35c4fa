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

/// Passes what programs post on to the transport, with tables in bytes. Of one rank; used by its worker only.
class RankExchange final : public runtime::ExchangePort {
 public:
  /// `members`: of the group, the rank among them.
  explicit RankExchange(int members);
  /// `ranks`: the members, in their order. `exchange` must outlive all work of the worker.
  void join(cluster::Exchange& exchange, std::vector<int> ranks) {
    exchange_ = &exchange;
    ranks_ = std::move(ranks);
  }

  /// The posts that follow have the numbers from `first` on, counted over the run.
  void begin(std::int64_t first) noexcept { next_ = first; }
  /// The number of the next post.
  [[nodiscard]] std::int64_t next() const noexcept { return next_; }
  void post(const runtime::ExchangePost& post) override;

  /// Rehearsals: the end of this exchange is reported at this time or later.
  void keep_until(std::int64_t sequence, std::chrono::steady_clock::time_point time) noexcept {
    kept_[static_cast<std::size_t>(sequence) % kept_.size()].store(time.time_since_epoch(), std::memory_order_release);
  }
  /// How long the end of this exchange, which is in, must still be kept. Any thread.
  [[nodiscard]] std::chrono::nanoseconds kept(std::int64_t sequence) const noexcept {
    const auto until = kept_[static_cast<std::size_t>(sequence) % kept_.size()].load(std::memory_order_acquire);
    return until - std::chrono::steady_clock::now().time_since_epoch();
  }

  [[nodiscard]] std::size_t members() const noexcept { return ranks_.size(); }
  /// The ranks from which something of an exchange is missing: cluster::Exchange::missing(). Any thread, once the rank has joined.
  [[nodiscard]] std::vector<int> missing(std::int64_t sequence) const;

 private:
  struct Way {
    std::vector<std::int64_t> at, bytes;
  };
  void divide(Way& way, const kernels::Tensor& tensor, std::span<const std::int32_t> table) const;

  cluster::Exchange* exchange_ = nullptr;
  std::vector<int> ranks_;
  std::int64_t next_ = 0;
  Way out_, in_;
  std::array<std::atomic<std::chrono::nanoseconds>, 64> kept_{};  // by sequence; more than are under way
};

}  // namespace millrace::actors
