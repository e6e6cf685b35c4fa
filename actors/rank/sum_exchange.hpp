#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "actors/rank/rank.hpp"
#include "cluster/links/link.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::actors {

/// One rank's side of the exchange of gradient sums with the rank that holds the same weights, once per step: its own sums are
/// sent, the other's arrive, they are added, and the sent message's slot becomes free. Plain state; the rank actor asks it what
/// may follow.
class SumExchangeState {
 public:
  SumExchangeState() = default;
  /// For `rank` of the plan; without a partner there is no exchange.
  SumExchangeState(const PipelinePlan& plan, runtime::RankId rank) {
    for (const auto& exchange : plan.exchanges()) {
      if (rank != exchange.first && rank != exchange.second) continue;
      there_ = true;
      channel_ = exchange.channel + (rank == exchange.second ? 1 : 0);
      bytes_ = exchange.bytes;
    }
  }
  [[nodiscard]] bool there() const noexcept { return there_; }

  // -- the message that this rank sends --------------------------------------------------------------------------------------------------
  [[nodiscard]] int channel() const noexcept { return channel_; }
  [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// A step begins.
  void begin() {
    ++sequence_;
    sent_ = arrived_ = adding_ = writable_ = waits_ = false;
  }
  /// The rank's own sums were passed to the link. True once both are here: add them.
  [[nodiscard]] bool sent() {
    sent_ = true;
    return both();
  }
  /// The other rank's sums are at `arrival`. True once both are here: add them.
  [[nodiscard]] bool arrived(const cluster::Arrival& arrival) {
    arrival_ = arrival;
    arrived_ = true;
    return both();
  }
  [[nodiscard]] const cluster::Arrival& arrival() const noexcept { return arrival_; }

  /// Before the step's report. False while the sent message's slot is not free for the next step: then writable() says when.
  [[nodiscard]] bool may_report() {
    waits_ = adding_ && !writable_;
    return !waits_;
  }
  /// The sent message's slot is free. True if a report has waited for it.
  [[nodiscard]] bool writable() {
    writable_ = true;
    return std::exchange(waits_, false);
  }

 private:
  bool both() {
    if (sent_ && arrived_) adding_ = true;
    return adding_;
  }

  bool there_ = false;
  int channel_ = -1;
  std::size_t bytes_ = 0;
  std::int64_t sequence_ = -1;
  bool sent_ = false, arrived_ = false, adding_ = false, writable_ = false, waits_ = false;
  cluster::Arrival arrival_;
};

/// The f32 gradient sums of the rank that another rank also has, from the shards of all its stages. Both ranks of an exchange have the same
/// sums in the same order, that of the model; each use of a tied table is separate.
[[nodiscard]] std::vector<kernels::Tensor> exchanged_sums(const Rank& rank);

/// Calls body(sum, part) for each of the sums with its part of `message`.
template <class Body>
void for_each_part(std::span<const kernels::Tensor> sums, std::byte* message, Body body) {
  for (const kernels::Tensor& sum : sums) {
    auto part = sum;
    part.data = message;
    body(sum, part);
    message += kernels::align_up(sum.bytes());
  }
}

}  // namespace millrace::actors
