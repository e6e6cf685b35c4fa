#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "actors/rank/list_transfers.hpp"
#include "actors/rank/transfer_queue.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "cluster/exchange/exchange.hpp"
#include "kernels/base/execution_context.hpp"
#include "runtime/engine/rank_compute.hpp"

namespace millrace::actors {

/// Hears that exchanges between replicas have ended, so that ReplicaExchange::advance() may go on: once until ReplicaExchange::heard(). Any
/// thread.
class ReplicaEvents {
 public:
  virtual ~ReplicaEvents() = default;
  virtual void on_replicas_exchanged() = 0;
};

/// A rank's part in the transfers between replicas that divide their update (runtime::Reduction): their gradient sums are added where they
/// are owned, as soon as a list has completed them, and each gets the parameters that the others have updated, after the optimizer or, with
/// divided masters, whenever a list needs them. Never waits: advance() does what can be done, between actions and between the operations of
/// an action. Thread: the rank's worker, except where said.
class ReplicaExchange final : public cluster::ExchangeEvents {
 public:
  /// `compute` must outlive it.
  ReplicaExchange(const PipelinePlan& plan, runtime::RankId rank, const runtime::RankCompute& compute);

  /// The groups that the rank is in, each once.
  [[nodiscard]] const std::vector<ReplicaGroup>& groups() const noexcept { return groups_; }
  /// Both must outlive all work of the worker. Throws Error(internal) if the rank has no member in one of its groups.
  void join(const cluster::Exchanges& exchanges, ReplicaEvents& events);

  // -- of a list
  /// The list begins, which will transfer these. `step`: for records.
  void begin_list(const ListTransfers& transfers, runtime::StepId step);
  /// The slot of the next stage that the list gathers is free.
  void slot_free();
  /// The number of gathers of the list that are complete, in its order: their parameters are in their slots, in the forms that programs
  /// read.
  [[nodiscard]] std::size_t residences_here() const noexcept { return residences_here_; }
  [[nodiscard]] const ListedSum& listed(std::size_t sum) const { return sums_.at(sum).listed; }
  /// The list has completed one of them, and the rank has added its own sets.
  void sum_complete(std::size_t sum);
  /// The last action that adds to it, if the rank has one set, has run an operation: what is complete leaves.
  void operation_done(std::size_t sum, runtime::ProgramKind program, std::size_t operation);
  /// The first so many have been added where they are owned.
  [[nodiscard]] std::size_t sums_added() const noexcept { return sums_added_; }
  [[nodiscard]] bool all_sums_added() const noexcept { return sums_added_ == sums_.size(); }

  // -- parameters after the optimizer
  /// What replicas own goes out to the others, stage by stage in the order of the model; once a stage has what others own, its copies are
  /// refreshed and `then` is called for its shard. No program may read the parameters of a stage until it is `gathered`.
  void gather(std::function<void(const runtime::StageShard&)> then);
  /// The stages whose parameters are here again: so many of Reduction::gathered.
  [[nodiscard]] std::size_t gathered() const noexcept { return gathered_; }

  /// What on_replicas_exchanged() told is being dealt with: it tells again of exchanges that end from now on.
  void heard() noexcept { told_.store(false, std::memory_order_seq_cst); }
  /// Adds sums that have arrived, and posts the transfers that may be posted. Does nothing while there is nothing to do. Throws what
  /// cluster::Exchange::post does.
  void advance(const kernels::ExecutionContext& context);
  /// Whether transfers are left, of which some may not be enabled yet.
  [[nodiscard]] bool busy() const noexcept { return !queue_.all_taken(); }
  /// The number of transfers that are complete, over the run.
  [[nodiscard]] std::int64_t completed() const noexcept { return completed_; }

  /// Its newest transfers. Any thread.
  [[nodiscard]] const runtime::TransferRing& trace() const noexcept { return trace_; }

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
    std::atomic<std::int64_t> next{0};  // number of the next exchange
    std::int64_t oldest = 0;            // the first one whose end has not been noted
    struct UnderWay {
      std::size_t transfer = 0;  // its position
      bool noted = true;         // whether the queue knows that it has ended
      std::int64_t bytes = 0;    // sent
    };
    std::array<std::atomic<std::int64_t>, cluster::Exchanges::max_outstanding> end{};    // by number: when it ended, in ns (steady_now)
    std::array<UnderWay, cluster::Exchanges::max_outstanding> under_way{};               // by number
    std::array<std::atomic<std::int64_t>, cluster::Exchanges::max_outstanding> ended{};  // the number of the one that has ended there, + 1
  };
  [[nodiscard]] std::size_t group_of(runtime::StageId stage, bool experts) const;
  void post(std::size_t group, std::size_t transfer, const std::byte* from, std::byte* into, const runtime::TransferTable& table);
  void post_transfer(std::size_t position, const kernels::ExecutionContext& context);
  void post_reduction(std::size_t position, const Transfer& transfer);
  void post_gather(std::size_t position, const runtime::GatherStep& gather, const kernels::ExecutionContext& context);
  void note_ends();
  void record(std::size_t position);
  void note_added();
  void add(const kernels::ExecutionContext& context, const Transfer& transfer) const;
  void clear_others(const kernels::ExecutionContext& context, const runtime::ReductionStep& step) const;
  void note_gathered(const kernels::ExecutionContext& context);
  void append_sum(const ListedSum& listed);
  void append_gather(const ListedGather& listed);
  void note_residences(const kernels::ExecutionContext& context);
  [[nodiscard]] std::byte* sums(const runtime::ReductionStep& step, int set) const;
  [[nodiscard]] std::byte* sent(const Transfer& transfer, const runtime::ReductionStep::Sum& sum) const;
  [[nodiscard]] std::byte* arrivals(const Transfer& transfer) const;
  [[nodiscard]] const runtime::StageTransfers& steps_of(runtime::StageId stage) const;

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
  std::atomic<bool> told_{false};  // and not heard
  TransferQueue queue_;
  struct Sum {
    ListedSum listed;
    std::size_t begin = 0, end = 0;  // positions of its transfers
    std::size_t enabled = 0;         // up to here they may be posted
    bool complete = false;           // the list has completed it
  };
  std::vector<Sum> sums_;  // of the list
  std::size_t sums_added_ = 0;
  struct ListGather {
    runtime::StageId stage;
    std::size_t begin = 0, end = 0;  // positions of its transfers
  };
  std::vector<ListGather> gathers_;  // of the list
  std::size_t slots_free_ = 0, residences_here_ = 0;
  std::function<void(const runtime::StageShard&)> then_;
  std::size_t gathers_taken_ = 0, gathered_ = 0;  // since gather()
  std::int64_t completed_ = 0;
  runtime::StepId step_ = runtime::no_step;
  std::vector<runtime::TransferRecord> under_way_;  // by position in the queue
  runtime::TransferRing trace_;
};

}  // namespace millrace::actors
