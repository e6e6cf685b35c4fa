#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/completions.hpp"
#include "actors/rank/compute_worker.hpp"
#include "actors/rank/progress_slot.hpp"
#include "actors/rank/rank_blueprint.hpp"
#include "actors/rank/rank_exchange.hpp"
#include "actors/rank/replica_exchange.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "cluster/control/control_link.hpp"
#include "cluster/links/link.hpp"
#include "kernels/base/execution_context.hpp"
#include "runtime/engine/exchange_record.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/engine/trace.hpp"

namespace millrace::actors {

class ActionRunner;

/// Receives the events of a rank: arrivals and credits from its links, ends of its exchanges, of rows and between replicas, and failures
/// outside of actions and tasks from its worker.
class RankEvents : public cluster::LinkEvents, public cluster::ExchangeEvents, public ReplicaEvents {
 public:
  virtual void failed(const TaskFailed& failure) = 0;
};

struct RankSetup {
  runtime::RankId id;
  RankResources needs;
  std::vector<int> cores;  // cores to which the team is pinned; empty: not pinned
  kernels::Implementation implementation = kernels::Implementation::fast;
  std::function<void(bool)> computing;  // see ComputeWorker; may be empty
  [[nodiscard]] kernels::Device device() const { return needs.device_of(id.value); }
};

/// The device of one rank and the order of what happens on it: its arena, compute worker, rings and trace. Built before the actors,
/// destroyed after them; its stages belong to their actors meanwhile. Its memory is touched by the worker alone while a list runs.
class Rank {
 public:
  Rank(const PipelinePlan& plan, const RankSetup& setup);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] runtime::RankId id() const noexcept { return setup_.id; }
  [[nodiscard]] kernels::Device device() const { return setup_.device(); }
  /// Whether work on the device is enqueued, and done later.
  [[nodiscard]] bool asynchronous() const { return kernels::device_type(device()).facts().asynchronous; }
  [[nodiscard]] const PipelinePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] runtime::RankCompute& compute() noexcept { return *compute_; }
  [[nodiscard]] const runtime::RankCompute& compute() const noexcept { return *compute_; }
  [[nodiscard]] ComputeWorker& worker() noexcept { return *worker_; }
  /// On the worker only.
  [[nodiscard]] const kernels::ExecutionContext& context() const noexcept { return *context_; }
  /// On the worker: everything enqueued from here to `when_done` is one piece of work.
  void begin_work() {
    work_begin_ = runtime::steady_now();
    if (completions_) completions_->begin();
  }
  /// On the worker: calls `body(const Completion&)` when everything enqueued on the stream so far is done: immediately, unless the
  /// device is asynchronous. `what`: see Completions::add.
  template <class Body>
  void when_done(kernels::StreamKind lane, const char* what, const Body& body) {
    if (completions_) return completions_->add(lane, what, body);
    body(Completion{work_begin_, runtime::steady_now(), nullptr});
  }
  /// On the worker: what is enqueued next belongs to this action.
  void set_breadcrumb(const Execute& execute);
  /// The work that the device began last, named when the device has failed.
  struct LastWork {
    runtime::Action action{runtime::no_stage, runtime::ActionKind::forward, runtime::no_microbatch};  // no_stage: before the first
    runtime::Pass pass = runtime::Pass::forward;
    std::string operation;
  };
  [[nodiscard]] LastWork last_work() const;
  /// The message to send for an error that was noticed in the action `heard_by` (null: outside of any action). An asynchronous
  /// device reports a failure late, so the message names the work that the device began last and not the action that noticed it.
  [[nodiscard]] TaskFailed failure_of(const Error& error, const runtime::Action* heard_by = nullptr) const;
  [[nodiscard]] runtime::TraceRing& trace() noexcept { return trace_; }
  /// The rank's exchanges; a ring of the smallest size if it has none.
  [[nodiscard]] runtime::ExchangeRing& exchange_trace() noexcept { return exchange_trace_; }

  // -- the three tables ------------------------------------------------------------------------------------------------------------------
  [[nodiscard]] const runtime::RankPlan& training_plan() const noexcept { return blueprint_.training; }
  /// The list of a step with this many microbatches: the same, or a smaller one while the batch grows.
  [[nodiscard]] const runtime::RankPlan& training_plan(std::int64_t microbatches) const noexcept {
    for (const auto& smaller : blueprint_.smaller_training)
      if (smaller.microbatches == microbatches) return smaller;
    return blueprint_.training;
  }
  [[nodiscard]] const runtime::RankPlan& evaluation_plan() const noexcept { return blueprint_.evaluation; }
  [[nodiscard]] const runtime::RankPlan& logits_plan() const noexcept { return blueprint_.logits; }

  /// Fills what follows from a batch's tokens: their compressed ids, or 0 in a model without n-gram memories. Errors: Error(data) for a
  /// token that has none. Any thread.
  void complete(const runtime::BatchView& batch) const;

  // -- batch slots: training microbatches take [0, n), evaluation [n, n + e) as rings
  // --------------------------------------------------------
  [[nodiscard]] int training_batches() const noexcept { return blueprint_.training_batches; }
  [[nodiscard]] int evaluation_batches() const noexcept { return blueprint_.evaluation_batches; }

  /// Whether a held-out microbatch is behind the last one and has no tokens: ranks that share experts all run as many.
  [[nodiscard]] bool is_empty(runtime::MicrobatchId held_out) const noexcept {
    return held_out.value >= setup_.needs.evaluation_microbatches;
  }

  // -- channels --------------------------------------------------------------------------------------------------------------------------
  /// This rank's ends of a channel, given where the other end is. Ring memory belongs to the rank.
  void add_ends(cluster::ChannelEnds& ends, RankEvents& events) const;
  /// Attaches the channels, whose ends call `events`. Neither is owned; both must outlive all work of the worker.
  void join(cluster::Links& links, RankEvents& events) {
    links_ = &links;
    events_ = &events;
  }
  [[nodiscard]] cluster::Link& link(int channel) const { return links_->link(channel); }
  /// The place at which this rank's programs read or write the message that the link has at `at`: the same place, or one in the
  /// rank's own ring, to or from which `incoming` or `outgoing` copies.
  [[nodiscard]] std::byte* program_place(int channel, std::byte* at, bool incoming) const;
  [[nodiscard]] SlotCopy incoming(int channel, std::byte* at, std::size_t bytes) const;
  [[nodiscard]] SlotCopy outgoing(int channel, std::byte* at, std::size_t bytes, std::int64_t sequence) const;
  /// On the worker: enqueues a copy, and makes the computation wait for it, or vice versa. What is sent in parts is passed to the
  /// link part by part.
  void copy_in(const SlotCopy& copy) const;
  void copy_out(const SlotCopy& copy);
  /// A part of a message has arrived; it is copied immediately. Any thread.
  void part_came(const cluster::Arrival& part);
  /// Whether the worker itself passes this rank's messages to the link.
  [[nodiscard]] bool leaves_in_parts(int channel) const;
  [[nodiscard]] const cluster::ChannelSpec& carried_channel(int channel) const { return channels_[static_cast<std::size_t>(channel)]; }
  // -- exchanges inside of actions -------------------------------------------------------------------------------------------------------
  /// Where programs post; the rank joins its group with it.
  [[nodiscard]] RankExchange& exchange() noexcept { return exchange_; }
  [[nodiscard]] const RankExchange& exchange() const noexcept { return exchange_; }
  // -- transfers between replicas that divide their update ------------------------------------------------------------------------------
  /// Null if there are none.
  [[nodiscard]] ReplicaExchange* replicas() noexcept { return replicas_.get(); }
  [[nodiscard]] const ReplicaExchange* replicas() const noexcept { return replicas_.get(); }
  /// Whether it has weights that other ranks have too, whose gradient sums they add together.
  [[nodiscard]] bool adds_with_replicas() const noexcept { return !compute_->reduction().empty(); }
  // -- what the worker does for an action ------------------------------------------------------------------------------------------------
  /// By default runs the stages' programs. It can be replaced before the actors start.
  [[nodiscard]] ActionRunner& runner() noexcept { return *runner_; }
  void replace_runner(std::unique_ptr<ActionRunner> runner);
  /// Called around every operation, on the worker; may be null. Not owned. Returns the one before. The worker's own once the actors run.
  runtime::OperationHook* set_hook(runtime::OperationHook* hook) noexcept { return std::exchange(hook_, hook); }
  [[nodiscard]] runtime::OperationHook* hook() const noexcept { return hook_; }
  /// The action that the worker is running, for hooks; used only by the worker.
  struct Running {
    runtime::Action action;
    runtime::Pass pass = runtime::Pass::forward;
    std::int64_t step = 0;
  };
  void set_running(const Running& running) noexcept { running_ = running; }
  [[nodiscard]] const Running& running() const noexcept { return running_; }
  /// How many actions may be issued and not done. Work is enqueued ahead of an asynchronous device; a CPU's worker takes one action at a
  /// time, and decides between two of them.
  [[nodiscard]] int issue_ahead() const noexcept { return completions_ ? max_issue_ahead : 1; }

  /// The rank's current activity, for heartbeats and the status page. Set by the rank's control; read by any thread without
  /// blocking.
  void set_progress(const cluster::Progress& progress);
  [[nodiscard]] ProgressSlot::Reading progress() const { return progress_.read(); }

  /// The planned size of the memory that the rank computes in, including what its device context reserves.
  [[nodiscard]] std::size_t planned_bytes() const noexcept;
  /// Bytes in use on the rank's device before its arena was allocated; 0 on a CPU.
  [[nodiscard]] std::size_t device_used_before() const noexcept { return device_used_before_; }

 private:
  const PipelinePlan& plan_;
  RankSetup setup_;
  RankBlueprint blueprint_;
  std::size_t device_used_before_ = 0;  // queried before the arena is allocated
  std::unique_ptr<runtime::RankCompute> compute_;
  runtime::TraceRing trace_;
  runtime::ExchangeRing exchange_trace_;
  std::unique_ptr<ActionRunner> runner_;
  ProgressSlot progress_;
  void open_device();
  [[nodiscard]] std::size_t queue_capacity() const;
  cluster::Links* links_ = nullptr;
  RankEvents* events_ = nullptr;
  runtime::OperationHook* hook_ = nullptr;
  Running running_;
  std::int64_t work_begin_ = 0;
  std::array<LastWork, 16> works_;  // take turns: more than may be under way
  std::uint32_t works_begun_ = 0;
  RankExchange exchange_;
  std::unique_ptr<ReplicaExchange> replicas_;
  std::vector<cluster::ChannelSpec> channels_;  // by id, as their links carry them
  std::unique_ptr<kernels::ThreadTeam> team_;
  std::unique_ptr<kernels::DeviceContext> device_context_;
  std::unique_ptr<Completions> completions_;  // of an asynchronous device
  std::unique_ptr<kernels::ExecutionContext> context_;
  std::unique_ptr<ComputeWorker> worker_;  // declared last: joined before the rest is destroyed
};

/// A rank that this process hosts, and the receiver of its events.
struct HostedRank {
  Rank* rank = nullptr;
  RankEvents* events = nullptr;
};
/// The links of the channels of `plan`, with what the ranks that are here bring to them; the ranks join them. Errors: Error(start).
[[nodiscard]] std::unique_ptr<cluster::Links> connect(const PipelinePlan& plan, const cluster::Topology& topology,
                                                      cluster::Transport* transport, const std::vector<HostedRank>& ranks);
/// The groups of ranks that share experts, joined by the ranks that are here; null if experts are not shared. Errors: as above.
[[nodiscard]] std::unique_ptr<cluster::Exchanges> connect_exchanges(const PipelinePlan& plan, const cluster::Topology& topology,
                                                                    cluster::Transport* transport, const std::vector<HostedRank>& ranks);
/// The groups of replicas that divide their update, joined by the ranks that are here; null if there are none. Errors: as above.
[[nodiscard]] std::unique_ptr<cluster::Exchanges> connect_replicas(const PipelinePlan& plan, const cluster::Topology& topology,
                                                                   cluster::Transport* transport, const std::vector<HostedRank>& ranks);

}  // namespace millrace::actors
