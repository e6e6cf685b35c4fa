#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/action_costs.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/batch_window.hpp"
#include "actors/rank/hash_hook.hpp"
#include "actors/rank/nan_hook.hpp"
#include "actors/rank/rank.hpp"
#include "actors/rank/rank_tasks.hpp"
#include "actors/rank/sum_exchange.hpp"
#include "actors/rank/wait_clock.hpp"
#include "runtime/engine/rank_engine.hpp"

namespace millrace::actors {

/// The effects that a rank's control can have. The rank's actor implements it with messages; the debugger's stepper holds
/// requests until the user continues.
class RankPort {
 public:
  virtual ~RankPort() = default;
  /// Run one pass, behind those asked for before; RankControl::action_done() follows.
  virtual void execute(const Execute& execute) = 0;
  /// Call RankControl::perform(task) on the worker, in order with the actions before it, and perform_then(task) when that is
  /// done; RankControl::work_done() follows.
  virtual void work(const RankTask& task) = 0;
  /// Fill a batch slot; RankControl::batch_ready() follows.
  virtual void load(const LoadBatch& request) = 0;
  virtual void report(const ToCoordinator& message) = 0;
  /// Write what the last snapshot staged; the coordinator is notified.
  virtual void write_shard(const WriteShard& request) = 0;
  /// The rank's first action is issued.
  virtual void begun() {}
  /// Stop was received: nothing follows.
  virtual void stopped() = 0;
};

/// The setup of a rank's control.
struct RankControlSetup {
  Rank* rank = nullptr;                    // must outlive the control
  const BatchProvider* batches = nullptr;  // must outlive the control
  std::int64_t first_step = 0, steps = 0;
  std::string hash_directory;  // the run directory, to which hashes of all tensors are written; empty: none are
  std::string nan_folder;      // folder for the inputs of an operation that produced a NaN; empty: they are not written
  int issue_ahead = 0;         // entries of the list that may be issued and not done; 0: Rank::issue_ahead()
  std::function<kernels::DeviceMemory()> device_memory;  // memory in use on the rank's GPU; empty: it computes on the CPU
  /// What Collect returns besides the gradients (captures for parity); may be empty.
  std::function<std::vector<CapturedTensor>()> captured;
  bool gathers_first = false;           // an update is reported once its parameters are on all replicas, not while they are on their way
  ActionCosts* action_costs = nullptr;  // adds up what training actions cost on a GPU; may be null; outlives the control
};

/// Runs one rank through the phases: its engine, which slots an action reads and writes, its batches, sums, optimizer and snapshots. Plain
/// C++ without threads, as the Coordinator is: events in, orders to the port out. Rank-wide work goes to the same worker as the actions, so
/// it is in order with them. One caller at a time: under actors everything here runs on the rank's worker.
class RankControl {
 public:
  RankControl(RankControlSetup setup, RankPort& port);

  // -- events
  /// All ranks of the process exist: loads ahead and reports RankReady.
  void begin();
  void receive(const ToRank& message);
  void boundary_arrived(const cluster::Arrival& arrival);
  void slot_writable(int channel, std::int64_t sequence);
  void exchange_ended(std::int64_t sequence);
  void replicas_exchanged();
  void batch_ready(const LoadBatch& request);
  void action_done(const ActionDone& action);
  void work_done(const TaskDone& finished);
  void failed(const TaskFailed& failure);

  /// On the worker: enqueues the task; and when it is done, completes it. Throws its errors.
  void perform(const RankTask& task);
  void perform_then(const RankTask& task, const Completion& completion);
  [[nodiscard]] kernels::StreamKind lane(const RankTask& task) const { return tasks_.lane(task); }

  [[nodiscard]] const runtime::RankEngine& engine() const noexcept { return engine_; }
  /// The list that is running or ran last; null before the first.
  [[nodiscard]] const runtime::RankPlan* list() const noexcept { return list_; }

 private:
  enum class Table : std::uint8_t { none, training, evaluation, logits };
  // -- phases, one handler per message
  void handle_any(const ToRank& message);
  void handle(const RunStep& message);
  void handle(const Optimize& message);
  void handle(const TakeSnapshot& message);
  void handle(const Evaluate& message);
  void handle(const ComputeLogits& message);
  void handle(const Collect& message);
  void handle(const Stop& message);
  // -- the engine
  void start(Table table, const runtime::RankPlan& plan, std::int64_t step);
  void carry_out(const runtime::Decisions& decisions);
  void issue(const runtime::Issue& issue);
  void pass_over();
  [[nodiscard]] std::byte* link_address(const runtime::RingSlot& slot, bool incoming) const;
  [[nodiscard]] std::byte* address(const runtime::RingSlot& slot, bool incoming) const;
  void copies_of(const runtime::Issue& issue, Execute& execute) const;
  void list_finished();
  void note_wait();
  void end_wait(std::int64_t produced = 0);
  [[nodiscard]] std::string_view awaited(const runtime::Wait& wait) const;
  void show(std::string_view what, runtime::StageId stage, runtime::MicrobatchId microbatch, const runtime::Wait& wait = {});
  // -- after a training list
  void send_sums();
  void add_sums();
  // -- with replicas that divide the update (replica_control.cpp)
  void begin_transfers();
  void free_slots(int finished);
  [[nodiscard]] int sum_of(const runtime::PlannedEntry& entry) const;
  [[nodiscard]] int completes(const runtime::PlannedEntry& entry) const;
  void note_gradients(const runtime::PlannedEntry& entry);
  void wait_for_sums();
  void sums_complete();
  [[nodiscard]] bool may_handle(const ToRank& message) const;
  void weights_leave();
  void gather(bool updated);
  void request_transfers();
  void transfers_done(const TaskDone& finished);
  void note_transfers();
  void show_idle();
  void show_transfers();
  void transfer_work(const RankTask& task);
  void transfer_done(const TaskDone& finished);
  [[nodiscard]] std::int64_t take_replica_bytes();
  void exchange_averages();
  void end_averages();
  void trace_task(runtime::SpanKind kind, const TaskDone& finished, std::int64_t step);
  void report_step();
  void look_at_device();
  // -- batches, of which only those of the rank's microbatches are loaded
  void request_batches();
  /// The number of them in all steps before this one.
  [[nodiscard]] std::int64_t batches_before(std::int64_t step) const;
  /// A microbatch's place among those of the list.
  [[nodiscard]] std::size_t own_place(runtime::MicrobatchId microbatch) const;

  RankControlSetup setup_;
  RankPort& port_;
  Rank& rank_;
  runtime::RankEngine engine_;
  std::vector<std::vector<std::byte*>> arrived_;     // by channel and ring slot: where the boundary is
  std::vector<std::vector<std::int64_t>> produced_;  // … and when its producer finished
  Table table_ = Table::none;
  const runtime::RankPlan* list_ = nullptr;
  std::int64_t step_ = -1;
  bool begun_ = false;    // an action was issued
  int actions_done_ = 0;  // of the list
  std::int64_t logits_position_ = 0;
  std::int64_t step_begin_ = 0, finished_at_ = 0;  // steady clock: begin of the list; end of the newest finished action
  WaitClock wait_;
  std::uint64_t trace_mark_ = 0;
  std::int64_t exchange_bytes_ = 0;  // sent by the list's exchanges to other members
  std::vector<char> begun_batches_;  // by microbatch of the list: whether an action on it was issued
  BatchWindow training_batches_, evaluation_batches_;
  std::int32_t batches_turn_ = 0;
  std::vector<int> training_uses_, evaluation_uses_;  // by microbatch: number of the table's actions
  SumExchangeState sum_exchange_;
  int transfer_tasks_ = 0;          // that the worker has, for transfers between ranks that hold the same weights
  std::int64_t idle_since_ = 0;     // since when it has had none after the list, and waits; 0: it does not wait
  std::int64_t replica_bytes_ = 0;  // sent to other replicas by the last report
  /// Weights that replicas divide: `away` from the order to write what the rank owns of them, `gathered` from when that is done.
  enum class Weights : std::uint8_t { here, away, gathered };
  Weights weights_ = Weights::here;
  std::size_t stages_here_ = 0;                                 // since they left
  std::vector<runtime::Residence> residences_;                  // of the list
  ListTransfers transfers_;                                     // of the list
  runtime::WeightSlots weight_slots_;                           // with divided masters: where stages have their weights
  std::size_t slots_freed_ = 0, residences_here_ = 0;           // … of the list's gathers, as far as the engine knows
  std::size_t leaves_added_ = 0;                                // of the list, as far as the engine knows
  bool sums_wanted_ = false;                                    // the list is finished, and sums of other replicas are missing
  bool transfers_requested_ = false, transfers_again_ = false;  // the worker has the task; something has ended since
  std::int64_t transfers_noted_ = 0;                            // those that were complete at the last task
  // What waits until all weights are here:
  std::optional<EvaluationReport> averaged_;  // of an evaluation of averages, whose end exchanges them again
  bool update_waits_ = false;                 // Optimized
  std::deque<ToRank> deferred_;               // messages, in order
  RankTasks tasks_;
  NanHook nan_hook_;
  std::optional<HashHook> hash_hook_;
  // of the step's report; kept, so that a steady step reuses their memory
  std::vector<runtime::TraceRecord> records_;
  ToCoordinator report_ = StepReport();
  std::int64_t steps_reported_ = 0;
  kernels::DeviceMemory device_memory_;  // as of the last query
  std::deque<TakeSnapshot> snapshots_;   // requested, oldest first
  bool starting_ = false, failed_ = false;
  bool skipped_ = false;  // the newest step was not to be updated
  // An abandoned evaluation: its actions are completed without computing, in order, after those that the worker already has.
  bool abandoned_ = false, passing_over_ = false;
  bool averages_in_place_ = false;  // parameters are exchanged with their moving averages, for the evaluation that runs
  std::deque<runtime::Issue> passed_over_;
};

}  // namespace millrace::actors
