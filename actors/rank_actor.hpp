#pragma once

#include <caf/actor.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "actors/batch_provider.hpp"
#include "actors/batch_window.hpp"
#include "actors/message_actor.hpp"
#include "actors/messages.hpp"
#include "actors/rank.hpp"
#include "actors/sum_exchange.hpp"
#include "actors/wait_clock.hpp"
#include "runtime/engine/optimizer_step.hpp"
#include "runtime/engine/rank_engine.hpp"

namespace millrace::actors {

/// What the actor of a rank is given.
struct RankActorSetup {
  Rank* rank = nullptr;                    // outlives the actor
  const BatchProvider* batches = nullptr;  // outlives the actor
  std::int64_t first_step = 0, steps = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  /// To the coordinator, from any thread.
  std::function<void(const ToCoordinator&)> report;
  /// Once, when the rank's first action is issued.
  std::function<void()> begun;
  caf::actor checkpoint;  // of this process; may be empty when nothing is saved
  /// What Collect answers besides the gradients (parity's captures); may be empty.
  std::function<std::vector<CapturedTensor>()> captured;
};

/// The shell of one rank's engine: tokens, credits and finished actions come in as messages, what the engine decides goes out to stage
/// actors, links and loader. Rank-wide work (sums, optimizer, snapshot) is posted to the same compute worker, so it is in order with the
/// actions.
class RankActor : public MessageActor {
 public:
  RankActor(caf::actor_config& config, RankActorSetup setup);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "rank"; }

 private:
  enum class Table : std::uint8_t { none, training, evaluation, logits };
  // -- phases, one handler a message
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
  [[nodiscard]] std::byte* address(const runtime::RingSlot& slot, bool incoming) const;
  void action_done(const ActionDone& action);
  void list_finished();
  void note_wait();
  void show(std::string_view what, runtime::StageId stage, runtime::MicrobatchId microbatch);
  // -- after a training list
  void work_done(const WorkDone& finished);
  void send_sums();
  void add_sums();
  void report_step();
  void fail(const WorkFailed& failure);
  // -- batches
  void request_batches();
  void batch_ready(const LoadBatch& request);

  /// Posts rank-wide work to the worker; work_done(work) follows.
  template <class Body>
  void post(RankWork work, Body body);

  RankActorSetup setup_;
  Rank& rank_;
  runtime::RankEngine engine_;
  caf::actor loader_;
  std::vector<caf::actor> stages_;                   // by position among the rank's stages
  std::vector<std::vector<std::byte*>> arrived_;     // by channel and ring slot: where the token lies
  std::vector<std::vector<std::int64_t>> produced_;  // … and when its producer finished
  Table table_ = Table::none;
  const runtime::RankPlan* list_ = nullptr;
  std::int64_t step_ = -1;
  std::int64_t tickets_ = 0;  // actions issued since the beginning
  std::int64_t logits_position_ = 0;
  std::int64_t step_begin_ = 0, finished_at_ = 0;  // steady clock: of the list; of the newest finished action
  WaitClock wait_;
  std::uint64_t trace_mark_ = 0;
  BatchWindow training_batches_, evaluation_batches_;
  std::vector<int> training_uses_, evaluation_uses_;  // by microbatch: actions of the table
  SumExchangeState exchange_;
  std::vector<runtime::TensorSquareSum> squares_;
  // of the step's report; kept, so that a steady step fills room that it has
  std::vector<runtime::TraceRecord> records_;
  ToCoordinator report_ = StepReport();
  std::vector<CopyHash> copy_hashes_;
  std::vector<std::string> folders_;  // of snapshots asked for, oldest first
  std::vector<std::int64_t> snapshot_steps_;
  bool starting_ = false, failed_ = false;
};

}  // namespace millrace::actors
