#pragma once

#include <caf/actor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "actors/compute_worker.hpp"
#include "actors/pipeline_plan.hpp"
#include "cluster/control_link.hpp"
#include "cluster/link.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/stream.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/engine/rank_plan.hpp"
#include "runtime/engine/trace.hpp"

namespace millrace::actors {

struct RankOptions {
  runtime::RankId id;
  int threads = 1;
  std::vector<int> cores;                     // to pin the team to; empty: not pinned
  std::int64_t evaluation_microbatches = 0;   // of one evaluation
  bool staging = false;                       // room for snapshots
  bool logits = false;                        // the head also has a program that ends in logits
  kernels::Implementation implementation = kernels::Implementation::fast;
};

/// Everything of one rank that is not an actor: its arena, programs, compute worker, rings and trace. Built before the actors, destroyed after them.
/// Its memory is touched by the worker alone while a list runs.
class Rank {
 public:
  Rank(const PipelinePlan& plan, const RankOptions& options);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] runtime::RankId id() const noexcept { return options_.id; }
  [[nodiscard]] const PipelinePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] runtime::RankCompute& compute() noexcept { return *compute_; }
  [[nodiscard]] const runtime::RankCompute& compute() const noexcept { return *compute_; }
  [[nodiscard]] ComputeWorker& worker() noexcept { return *worker_; }
  /// On the worker only.
  [[nodiscard]] const kernels::Stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] runtime::TraceRing& trace() noexcept { return trace_; }
  [[nodiscard]] bool owns(runtime::StageId stage) const { return plan_.schedule.placement.rank_of(stage) == options_.id; }

  // -- the three tables ------------------------------------------------------------------------------------------------------------------
  [[nodiscard]] const runtime::RankPlan& training_plan() const noexcept { return training_plan_; }
  [[nodiscard]] const runtime::RankPlan& evaluation_plan() const noexcept { return evaluation_plan_; }
  [[nodiscard]] const runtime::RankPlan& logits_plan() const noexcept { return logits_plan_; }

  // -- batch slots: training microbatches take [0, n), evaluation [n, n + e) as rings --------------------------------------------------------
  [[nodiscard]] int training_batches() const noexcept { return training_batches_; }
  [[nodiscard]] int evaluation_batches() const noexcept { return evaluation_batches_; }

  // -- channels --------------------------------------------------------------------------------------------------------------------------
  /// What this rank brings to a channel, given where the other end is. Ring memory is the rank's.
  void add_ends(cluster::ChannelEnds& ends, bool same_process);
  /// Set once before the first step. Not owned.
  cluster::Links* links = nullptr;
  /// Where token and credit events go; set before the links exist.
  caf::actor inbox;
  /// Called around every operation, on the worker; may be null. Not owned.
  runtime::OperationHook* hook = nullptr;
  /// What the worker is running, for hooks; the worker's own.
  runtime::Action running_action;
  runtime::Pass running_pass = runtime::Pass::forward;

  /// What the rank is doing, for the heartbeats. Any thread.
  void set_progress(const cluster::Progress& progress);
  [[nodiscard]] cluster::Progress progress() const;

  [[nodiscard]] std::size_t planned_bytes() const noexcept { return compute_->memory().plan().total_bytes() + ring_bytes_; }
  /// The arena's table with the rings below.
  [[nodiscard]] std::string print_memory() const;

 private:
  class Events;
  struct Ring {
    int channel = 0;
    std::size_t offset = 0, bytes = 0;
  };
  [[nodiscard]] std::span<std::byte> ring(int channel) const;
  void plan_rings();

  const PipelinePlan& plan_;
  RankOptions options_;
  runtime::RankPlan training_plan_, evaluation_plan_, logits_plan_;
  int training_batches_ = 1, evaluation_batches_ = 0;
  std::unique_ptr<runtime::RankCompute> compute_;
  std::vector<Ring> rings_;
  std::size_t ring_bytes_ = 0;
  kernels::Buffer ring_memory_;
  runtime::TraceRing trace_;
  mutable std::mutex progress_mutex_;
  cluster::Progress progress_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<kernels::ThreadTeam> team_;
  std::unique_ptr<kernels::Stream> stream_;
  std::unique_ptr<ComputeWorker> worker_;  // last: joins before the rest goes
};

/// Microbatches whose tokens are in use at a time in a list: from the first action on one to the last.
[[nodiscard]] int batches_in_flight(const runtime::RankPlan& plan);

}  // namespace millrace::actors
