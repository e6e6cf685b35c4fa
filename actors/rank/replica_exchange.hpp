#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "cluster/exchange/exchange.hpp"
#include "kernels/base/execution_context.hpp"
#include "runtime/engine/rank_compute.hpp"

namespace millrace::actors {

/// Hears that an exchange of transfer `transfer` of the phase under way (TransferQueue) has ended. Any thread.
class ReplicaEvents {
 public:
  virtual ~ReplicaEvents() = default;
  virtual void on_replicas_exchanged(std::size_t transfer) = 0;
};

/// A rank's part in the transfers between replicas that divide their update (runtime::Reduction): after a step's list their gradient sums
/// are added where they are owned, and after the optimizer each gets the parameters that the others have updated. The rank's worker posts
/// and adds.
class ReplicaExchange final : public cluster::ExchangeEvents {
 public:
  /// `compute` must outlive it.
  ReplicaExchange(const PipelinePlan& plan, runtime::RankId rank, const runtime::RankCompute& compute);

  /// The groups that the rank is in, each once.
  [[nodiscard]] const std::vector<ReplicaGroup>& groups() const noexcept { return groups_; }
  /// Both must outlive all work of the worker. Throws Error(internal) if the rank has no member in one of its groups.
  void join(const cluster::Exchanges& exchanges, ReplicaEvents& events);

  /// The exchanges of each step of the reduction, and of each gather.
  [[nodiscard]] std::vector<int> reduction_exchanges() const;
  [[nodiscard]] std::vector<int> gather_exchanges() const;

  // -- on the worker; posts do not wait, and throw what cluster::Exchange::post does
  void post_reduction(std::size_t step);
  /// Adds what came in the step; after the last one of a bucket also clears what others own of it.
  void add(const kernels::ExecutionContext& context, std::size_t step) const;
  void post_gather(std::size_t gather);

  /// From the transport.
  void on_exchanged(int group, std::int64_t sequence) override;

  /// Bytes sent to other ranks so far. Any thread.
  [[nodiscard]] std::int64_t bytes_sent() const noexcept;
  /// The ranks for which the transfer that was posted first, and has not ended, waits; and the number of members of its group. Any thread.
  struct Missing {
    std::vector<int> ranks;
    std::size_t members = 0;
  };
  [[nodiscard]] Missing missing() const;

 private:
  /// The rank's member of a group.
  struct Member {
    cluster::Exchange* exchange = nullptr;
    std::atomic<std::int64_t> next{0};                                                      // number of the next exchange
    std::array<std::atomic<std::size_t>, cluster::Exchanges::max_outstanding> transfers{};  // by number
  };
  [[nodiscard]] std::size_t group_of(runtime::StageId stage, bool experts) const;
  void post(std::size_t group, std::size_t transfer, const std::byte* from, std::byte* into, const runtime::TransferTable& table);
  [[nodiscard]] std::byte* sums(const runtime::ReductionStep& step, int set) const;

  const runtime::RankCompute& compute_;
  runtime::RankId rank_;
  std::vector<ReplicaGroup> groups_;
  std::vector<Member> members_;  // by group
  struct StageGroups {
    runtime::StageId stage;
    std::array<std::size_t, 2> groups{};  // of all weights but those of experts, of those
  };
  std::vector<StageGroups> stages_;
  ReplicaEvents* events_ = nullptr;
};

}  // namespace millrace::actors
