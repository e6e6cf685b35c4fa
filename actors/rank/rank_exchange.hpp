#pragma once

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
};

}  // namespace millrace::actors
