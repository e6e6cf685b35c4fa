#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/rank/rank.hpp"
#include "cluster/links/link.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::actors {

/// One rank's side of the exchange of gradient sums with ranks that hold the same weights, once per step, in one round or two (SumRound):
/// its own sums are sent, those of the others arrive, they are added, and the slots of the sent messages become free. Plain state; the rank
/// actor asks it what may follow.
class SumExchangeState {
 public:
  SumExchangeState() = default;
  /// For `rank` of the plan, which must outlive this object; without messages there is no exchange.
  SumExchangeState(const PipelinePlan& plan, runtime::RankId rank);
  [[nodiscard]] bool there() const noexcept { return !rounds_.empty(); }

  struct Incoming {
    const SumMessage* message = nullptr;
    std::optional<cluster::Arrival> arrival = {};  // of this step, or before it begins already of the next
    [[nodiscard]] bool has(std::int64_t sequence) const noexcept { return arrival && arrival->sequence == sequence; }
  };
  struct Round {
    SumRound round = SumRound::uses;
    std::vector<const SumMessage*> outgoing = {};
    std::vector<Incoming> incoming = {};
  };
  [[nodiscard]] const std::vector<Round>& rounds() const noexcept { return rounds_; }
  /// The round that is under way.
  [[nodiscard]] const Round& round() const { return rounds_.at(round_); }
  [[nodiscard]] std::size_t round_index() const noexcept { return round_; }
  [[nodiscard]] bool in_last_round() const noexcept { return round_ + 1 >= rounds_.size(); }
  /// The number of the step's message in each channel.
  [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_; }

  /// A step begins.
  void begin();
  /// The messages of the round were passed to their links. True if all sums of the round are here: add them.
  [[nodiscard]] bool sent();
  /// Another rank's sums are here, of this round or already of the next; of a copy that is ahead also those of the next step, which then
  /// are kept until the step begins. True once all of this round are here: add them.
  [[nodiscard]] bool arrived(const cluster::Arrival& arrival);
  /// The sums of the round were added. True if a round follows: send its sums.
  [[nodiscard]] bool next_round();

  /// Before the step's report. False while the slot of a sent message is not free for the next step: then writable() says when.
  [[nodiscard]] bool may_report();
  /// The slot of a sent message is free. True if a report has waited for it, and for no other.
  [[nodiscard]] bool writable();

 private:
  [[nodiscard]] bool complete() const;

  std::vector<Round> rounds_;
  std::size_t round_ = 0;
  std::int64_t sequence_ = -1;
  bool sent_ = false;       // in this round
  std::int64_t taken_ = 0;  // sent messages whose slots are not free; negative where a slot is reported before its sending
  bool report_waits_ = false;
};

/// The parts of a round's messages as tensors of one rank.
class ExchangedSums {
 public:
  /// The exchange and the rank must outlive this object.
  ExchangedSums(const Rank& rank, const SumExchangeState& exchange);

  /// Copies the rank's own sums to the place of the message (outgoing message `index` of the round under way).
  void write(const kernels::ExecutionContext& context, std::size_t index, std::byte* place) const;
  /// Adds what came in the round under way to the rank's sums; `places` are those of the incoming messages. After the round of replicas
  /// set 0 has the sum over all replicas, with the same bits on all of them, and the other sets are zero. After the round of uses the
  /// gradient of each shared weight is complete, and the sums of its further uses on this rank are zero.
  void add(const kernels::ExecutionContext& context, const std::vector<std::byte*>& places) const;
  /// Whether the round of uses completes the gradient of this weight.
  [[nodiscard]] bool completes(const runtime::StoredParameter& tensor) const;

 private:
  /// Where a sum is: on this rank, or in an incoming message of the round.
  struct Use {
    kernels::Tensor own = {};
    std::size_t message = 0, offset = 0;
    [[nodiscard]] bool is_own() const noexcept { return own.data != nullptr; }
    /// The sum as a tensor like `like`.
    [[nodiscard]] kernels::Tensor tensor(const kernels::Tensor& like, const std::vector<std::byte*>& places) const;
  };
  struct SharedWeight {
    const runtime::StoredParameter* tensor = nullptr;
    std::vector<Use> uses = {};  // in order
  };
  /// The sums of one use of a weight that all replicas have, in a round of replicas.
  struct ReplicatedSum {
    struct Addition {
      Use into, from;
    };
    kernels::Tensor gradient = {};             // where the last addition leaves the sum
    std::vector<Addition> additions = {};      // in order
    std::vector<kernels::Tensor> others = {};  // further sums of this rank, which end as zero
  };
  struct RoundSums {
    std::vector<std::vector<kernels::Tensor>> outgoing = {};  // by message, then by part and sum
    std::vector<ReplicatedSum> replicated = {};
    std::vector<SharedWeight> weights = {};  // of a round of uses
  };
  [[nodiscard]] static std::vector<ReplicatedSum> replicated_sums(const Rank& rank, const SumExchangeState::Round& round);
  void add_replicas(const kernels::ExecutionContext& context, const RoundSums& sums, const std::vector<std::byte*>& places) const;
  void add_uses(const kernels::ExecutionContext& context, const RoundSums& sums, const std::vector<std::byte*>& places) const;

  const SumExchangeState& exchange_;
  std::vector<RoundSums> rounds_;
};

}  // namespace millrace::actors
