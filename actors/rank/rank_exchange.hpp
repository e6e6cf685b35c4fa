#pragma once

#include <cstdint>
#include <vector>

#include "cluster/exchange/exchange.hpp"
#include "runtime/program/exchange.hpp"

namespace millrace::actors {

/// Passes what programs post on to the transport, with tables in bytes. Of one rank; used by its worker only.
class RankExchange final : public runtime::ExchangePort {
 public:
  /// `members`: of the group, the rank among them.
  explicit RankExchange(int members);
  /// `exchange` must outlive all work of the worker.
  void join(cluster::Exchange& exchange) noexcept { exchange_ = &exchange; }

  /// The posts that follow have the numbers from `first` on, counted over the run.
  void begin(std::int64_t first) noexcept { next_ = first; }
  /// The number of the next post.
  [[nodiscard]] std::int64_t next() const noexcept { return next_; }
  void post(const runtime::ExchangePost& post) override;

 private:
  struct Way {
    std::vector<std::int64_t> at, bytes;
  };
  void divide(Way& way, const kernels::Tensor& tensor, std::span<const std::int32_t> table) const;

  cluster::Exchange* exchange_ = nullptr;
  std::int64_t next_ = 0;
  Way out_, in_;
};

}  // namespace millrace::actors
