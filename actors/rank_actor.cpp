#include "actors/rank_actor.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <caf/send.hpp>
#include <chrono>
#include <utility>

#include "actors/embedding_actor.hpp"
#include "actors/head_actor.hpp"
#include "actors/loader_actor.hpp"
#include "kernels/elementwise.hpp"
#include "runtime/engine/step_shares.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

std::int64_t steady_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::uint64_t resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::vector<int> uses_of(const runtime::RankPlan& plan) {
  std::vector<int> uses(static_cast<std::size_t>(plan.microbatches), 0);
  for (const auto& planned : plan.actions) ++uses[planned.action.microbatch.index()];
  return uses;
}

runtime::RankEngine::Options engine_options(const Rank& rank) {
  return {rank.id(), rank.plan().edges, rank.plan().ledger.depths, kIssueAhead};
}

}  // namespace

RankActor::RankActor(caf::actor_config& config, RankActorSetup setup)
    : caf::event_based_actor(config),
      setup_(std::move(setup)),
      rank_(*setup_.rank),
      engine_(engine_options(rank_)),
      training_batches_(rank_.training_batches(), setup_.first_step * rank_.plan().schedule.microbatches),
      evaluation_batches_(rank_.evaluation_batches(), 0),
      training_uses_(uses_of(rank_.training_plan())),
      evaluation_uses_(uses_of(rank_.evaluation_plan())) {
  records_.reserve(2 * rank_.training_plan().actions.size() + 8);  // an action and a wait each, then what ends a step
  const auto& plan = rank_.plan();
  for (const auto& channel : plan.channels()) {
    arrived_.emplace_back(static_cast<std::size_t>(channel.depth), nullptr);
    produced_.emplace_back(static_cast<std::size_t>(channel.depth), 0);
  }
}

caf::behavior RankActor::make_behavior() {
  report_exceptions(*this, [this](const WorkFailed& failure) { fail(failure); });
  const caf::actor self(this);
  loader_ = spawn<LoaderActor>(rank_, *setup_.batches, self);
  const auto& plan = rank_.plan();
  for (const auto stage : plan.schedule.placement.stages_of(rank_.id())) {
    if (stage.value == plan.stages() - 1) {
      stages_.push_back(spawn<HeadActor>(rank_, stage, self));
    } else if (stage.value == 0) {
      stages_.push_back(spawn<EmbeddingActor>(rank_, stage, self));
    } else {
      stages_.push_back(spawn<StageActor>(rank_, stage, self));
    }
  }
  return {
      [this](const Begin&) {
        request_batches();
        setup_.report(RankReady{rank_.id().value, rank_.planned_bytes()});
      },
      [this](const ToRank& message) { std::visit([this](const auto& phase) { handle(phase); }, message); },
      [this](const TokenArrived& token) {
        const auto& arrival = token.arrival;
        const auto channel = static_cast<std::size_t>(arrival.channel);
        if (channel >= rank_.plan().edges.size()) {
          if (tied_.arrived(arrival)) add_tied();
          return;
        }
        const auto slot = static_cast<std::size_t>(arrival.sequence) % arrived_[channel].size();
        arrived_[channel][slot] = arrival.data;
        produced_[channel][slot] = arrival.producer_finish_ns;
        carry_out(engine_.token_arrived(runtime::EdgeId(arrival.channel), arrival.sequence));
      },
      [this](const SlotWritable& slot) {
        if (static_cast<std::size_t>(slot.channel) >= rank_.plan().edges.size()) {
          if (tied_.writable()) report_step();
          return;
        }
        carry_out(engine_.credit_returned(runtime::EdgeId(slot.channel), slot.sequence));
      },
      [this](const BatchReady& ready) { batch_ready(ready.request); },
      [this](const ActionDone& action) { action_done(action); },
      [this](const Exchanged&) {
        if (tied_.sent()) add_tied();
      },
      [this](const WorkDone& work) { work_done(work); },
      [this](const WorkFailed& failure) { fail(failure); },
      [this](const ShardWritten& written) { setup_.report(written); },
  };
}

template <class Body>
void RankActor::post(RankWork work, Body body) {
  // The worker is idle before the actor ends (Stop comes after every answer), so the plain pointer is good.
  rank_.worker().post([this, work, body] {
    const auto& self = rank_.inbox;
    guarded(self, {}, false, [&] {
      const std::int64_t begin = steady_now();
      body();
      caf::anon_send(self, WorkDone{work, begin, steady_now()});
    });
  });
}

// -- phases -------------------------------------------------------------------------------------------------------------------------------

void RankActor::handle(const RunStep& message) {
  step_ = message.step;
  const auto targets = setup_.batches->valid_targets(step_);
  rank_.compute().set_loss_scale(targets > 0 ? 1.0F / static_cast<float>(targets) : 0.0F);
  tied_.begin();
  trace_mark_ = rank_.trace().count();
  start(Table::training, rank_.training_plan(), step_);
}

void RankActor::handle(const Evaluate& message) {
  step_ = message.step;
  evaluation_batches_ = BatchWindow(rank_.evaluation_batches(), 0);
  start(Table::evaluation, rank_.evaluation_plan(), message.step);
}

void RankActor::handle(const ComputeLogits& message) {
  // The first row holds the text; the others are padding and see nothing of it.
  const auto places = rank_.compute().batch(rank_.training_batches());
  const auto sequence = static_cast<std::size_t>(rank_.plan().sequence);
  for (std::size_t i = 0; i < places.tokens.size(); ++i) {
    places.tokens[i] = i < message.tokens.size() ? message.tokens[i] : 0;
    places.positions[i] = static_cast<std::int32_t>(i % sequence);
    places.segments[i] = i < message.tokens.size() ? 1 : 0;
    places.targets[i] = -1;
  }
  logits_position_ = message.position;
  start(Table::logits, rank_.logits_plan(), step_);
}

void RankActor::handle(const Optimize& message) {
  kernels::AdamwScalars scalars;
  scalars.learning_rate = message.learning_rate;
  scalars.beta1 = setup_.beta1;
  scalars.beta2 = setup_.beta2;
  scalars.epsilon = setup_.epsilon;
  scalars.weight_decay = setup_.weight_decay;
  scalars.gradient_scale = static_cast<float>(message.gradient_scale);
  scalars.update = message.update;
  show("optimizer", runtime::no_stage, runtime::no_microbatch);
  post(RankWork::optimizer, [this, scalars] { runtime::apply_adamw(rank_.stream(), scalars, rank_.compute().store()); });
}

void RankActor::handle(const TakeSnapshot& message) {
  folders_.push_back(message.folder);
  snapshot_steps_.push_back(message.step);
  show("snapshot", runtime::no_stage, runtime::no_microbatch);
  post(RankWork::snapshot, [this] {
    const auto& store = rank_.compute().store();
    store.take_snapshot();
    tied_hashes_.clear();
    const auto& plan = rank_.plan();
    if (plan.replicated_table()) {
      const auto& name = plan.parameters.front().name;
      if (const auto* table = rank_.compute().parameters().find(name))
        tied_hashes_.push_back({name, runtime::hash_of(store.snapshot_master(*table)).hex()});
    }
  });
}

void RankActor::handle(const Collect&) {
  auto tell = [this](CapturedTensor tensor) { setup_.report(Collected{rank_.id().value, false, std::move(tensor)}); };
  if (setup_.captured)
    for (auto& tensor : setup_.captured()) tell(std::move(tensor));
  const auto& store = rank_.compute().store();
  const bool speaks_for_table = !rank_.plan().replicated_table() || rank_.owns(runtime::StageId(0));
  for (const auto& tensor : rank_.compute().parameters().tensors()) {
    if (!speaks_for_table && tensor.has_use(1) && !tensor.has_use(0)) continue;
    const auto gradient = store.gradient(tensor);
    CapturedTensor captured;
    captured.name = "grad." + tensor.name;
    for (std::size_t axis = 0; axis < tensor.shape.rank(); ++axis) captured.shape.push_back(tensor.shape[axis]);
    captured.values.assign(gradient.as<float>(), gradient.as<float>() + gradient.elements());
    tell(std::move(captured));
  }
  setup_.report(Collected{rank_.id().value, true, {}});
}

void RankActor::handle(const Stop&) {
  send_exit(loader_, caf::exit_reason::user_shutdown);
  for (const auto& stage : stages_) send_exit(stage, caf::exit_reason::user_shutdown);
  // Stages and loader hold this actor and it holds them; the detached checkpoint actor's thread ends with its last handle.
  stages_.clear();
  loader_ = nullptr;
  setup_.checkpoint = nullptr;
  quit();
}

// -- the engine ---------------------------------------------------------------------------------------------------------------------------

void RankActor::start(Table table, const runtime::RankPlan& plan, std::int64_t step) {
  table_ = table;
  list_ = &plan;
  if (table == Table::training) training_batches_.begin(training_uses_);
  if (table == Table::evaluation) evaluation_batches_.begin(evaluation_uses_);
  wait_ = WaitClock();
  step_begin_ = steady_now();
  starting_ = true;  // what was loaded ahead is not missing
  carry_out(engine_.start(plan, runtime::StepId(step)));
  starting_ = false;
  request_batches();
  // What was loaded ahead.
  if (table == Table::logits) return carry_out(engine_.batch_ready(runtime::MicrobatchId(0)));
  if (table == Table::training) {
    const std::int64_t first = step * plan.microbatches;
    const std::int64_t ready = std::min<std::int64_t>(training_batches_.loaded() - first, plan.microbatches);
    for (std::int64_t microbatch = 0; microbatch < ready; ++microbatch) carry_out(engine_.batch_ready(runtime::MicrobatchId(microbatch)));
  }
  note_wait();
}

void RankActor::carry_out(const runtime::Decisions& decisions) {
  for (const auto& slot : decisions.sends)
    rank_.links->link(slot.edge.value).send(slot.sequence, rank_.plan().boundary_bytes(), finished_at_);
  for (const auto& slot : decisions.releases) rank_.links->link(slot.edge.value).release(slot.sequence);
  for (const auto& decision : decisions.issues) issue(decision);
  const bool finished = decisions.finished;
  note_wait();
  if (finished) list_finished();
}

/// Where a ring slot is: an incoming token where it arrived, everything else where the link says.
std::byte* RankActor::address(const runtime::RingSlot& slot, bool incoming) const {
  if (!slot.present()) return nullptr;
  const auto& edge = rank_.plan().edges[slot.edge.index()];
  if (incoming && !edge.local()) return arrived_[slot.edge.index()][static_cast<std::size_t>(slot.slot)];
  return rank_.links->link(slot.edge.value).slot(slot.sequence);
}

void RankActor::issue(const runtime::Issue& issue) {
  const auto microbatch = issue.action.microbatch.value;
  const bool last = issue.action.stage.value == rank_.plan().stages() - 1;
  Execute execute;
  execute.ticket = tickets_++;
  execute.action = issue.action;
  execute.pass = table_ == Table::training ? runtime::pass_of(issue.action.kind)
                                           : (table_ == Table::logits && last ? runtime::Pass::logits : runtime::Pass::evaluate);
  auto& slots = execute.slots;
  const bool makes_gradient = runtime::makes_gradient(issue.action.kind);
  slots.token_in = address(issue.activation, true);
  slots.gradient_in = address(issue.gradient, true);
  (makes_gradient ? slots.gradient_out : slots.token_out) = address(issue.output, false);
  slots.stash_input = std::max(issue.stash_input, 0);
  slots.stash_weight = std::max(issue.stash_weight, 0);
  slots.handoff = std::max(issue.handoff, 0);
  const auto& plan = rank_.plan();
  switch (table_) {
    case Table::training:
      slots.batch = training_batches_.slot(step_ * list_->microbatches + microbatch);
      slots.accumulators = static_cast<int>(static_cast<std::int64_t>(microbatch) * plan.accumulators / list_->microbatches);
      break;
    case Table::evaluation:
      slots.batch = rank_.training_batches() + evaluation_batches_.slot(microbatch);
      break;
    default:
      slots.batch = rank_.training_batches();
      break;
  }
  slots.result = microbatch;

  const auto& waited_for = makes_gradient ? issue.gradient : issue.activation;
  const std::int64_t produced = waited_for.present() && !plan.edges[waited_for.edge.index()].local()
                                    ? produced_[waited_for.edge.index()][static_cast<std::size_t>(waited_for.slot)]
                                    : 0;
  runtime::TraceRecord record;
  if (wait_.issued(issue.step, produced, steady_now(), record)) rank_.trace().add(record);
  show(to_string(runtime::span_of(issue.action.kind)), issue.action.stage, issue.action.microbatch);
  send(stages_[static_cast<std::size_t>(plan.schedule.placement.chunk_of(issue.action.stage))], execute);
}

void RankActor::action_done(const ActionDone& action) {
  if (failed_) return;
  runtime::TraceRecord record;
  record.begin = action.begin;
  record.end = action.end;
  record.step = runtime::StepId(step_);
  record.stage = action.action.stage;
  record.microbatch = action.action.microbatch;
  record.kind = runtime::span_of(action.action.kind);
  rank_.trace().add(record);
  finished_at_ = action.end;
  if (table_ == Table::training) training_batches_.used(action.action.microbatch.index());
  if (table_ == Table::evaluation) evaluation_batches_.used(action.action.microbatch.index());
  request_batches();
  carry_out(engine_.action_finished(action.action));
}

/// The worker is idle and the list is not done: from when on, and why.
void RankActor::note_wait() {
  if (starting_ || !engine_.running() || engine_.issued() > engine_.finished()) return;
  const auto wait = engine_.wait();
  if (wait.reason == runtime::WaitReason::none || wait.reason == runtime::WaitReason::compute) return;
  const std::int64_t since = engine_.finished() == 0 ? step_begin_ : finished_at_;
  wait_.blocked(wait, since);
  std::array<char, sizeof(cluster::Progress::action)> text;  // on the stack: this runs between actions
  const auto end = fmt::format_to_n(text.data(), text.size(), "waits for {}", to_string(wait.reason));
  show({text.data(), std::min(end.size, text.size())}, wait.action.stage, wait.action.microbatch);
}

void RankActor::show(std::string_view what, runtime::StageId stage, runtime::MicrobatchId microbatch) {
  cluster::Progress progress;
  progress.rank = rank_.id().value;
  progress.stage = stage.value;
  progress.microbatch = microbatch.value;
  progress.step = step_ + 1;
  progress.set_action(what);
  rank_.set_progress(progress);
}

void RankActor::list_finished() {
  const auto table = std::exchange(table_, Table::none);
  switch (table) {
    case Table::training:
      return post(RankWork::sums, [this] {
        const auto& store = rank_.compute().store();
        store.add_accumulator_sets(rank_.stream());
        store.add_local_uses(rank_.stream());
      });
    case Table::evaluation: {
      EvaluationReport report{rank_.id().value, {}};
      if (rank_.plan().head_rank() == rank_.id()) losses_of(rank_, list_->microbatches, report.losses);
      return setup_.report(report);
    }
    case Table::logits: {
      LogitsReport report{rank_.id().value, {}};
      if (rank_.plan().head_rank() == rank_.id()) report.logits = logits_of(rank_, logits_position_);
      return setup_.report(report);
    }
    case Table::none:
      return;
  }
}

// -- after a training list ----------------------------------------------------------------------------------------------------------------

void RankActor::work_done(const WorkDone& finished) {
  const auto& plan = rank_.plan();
  auto trace = [&](runtime::SpanKind kind, std::int64_t step) {
    runtime::TraceRecord record;
    record.begin = finished.begin;
    record.end = finished.end;
    record.step = runtime::StepId(step);
    record.kind = kind;
    rank_.trace().add(record);
  };
  switch (finished.work) {
    case RankWork::sums:
      if (plan.replicated_table() && (plan.embedding_rank() == rank_.id() || plan.head_rank() == rank_.id())) {
        const bool embedding = plan.embedding_rank() == rank_.id();
        show("exchanges the tied table's gradient", runtime::no_stage, runtime::no_microbatch);
        return send(embedding ? stages_.front() : stages_.back(), ExchangeTied{step_});
      }
      [[fallthrough]];
    case RankWork::tied_added:
      return post(RankWork::squares, [this] { runtime::square_sums(rank_.stream(), rank_.compute().store(), squares_); });
    case RankWork::squares:
      return report_step();
    case RankWork::optimizer:
      trace(runtime::SpanKind::optimizer, step_);
      return setup_.report(Optimized{rank_.id().value, step_});
    case RankWork::snapshot: {
      const std::int64_t step = snapshot_steps_.front();
      trace(runtime::SpanKind::snapshot, step - 1);  // of the step that it follows
      setup_.report(SnapshotTaken{rank_.id().value, step, tied_hashes_});
      send(setup_.checkpoint, WriteShard{rank_.id().value, step, folders_.front()});
      snapshot_steps_.erase(snapshot_steps_.begin());
      folders_.erase(folders_.begin());
      return;
    }
  }
}

/// Adds the other side's sum: use 0 + use 1 on both ranks, the same bits since addition commutes.
void RankActor::add_tied() {
  const bool embedding = rank_.plan().embedding_rank() == rank_.id();
  post(RankWork::tied_added, [this, embedding] {
    const auto& name = rank_.plan().parameters.front().name;
    const auto own = rank_.compute().store().accumulator(rank_.compute().parameters().at(name), embedding ? 0 : 1);
    auto other = own;
    other.data = tied_.arrival().data;
    kernels::accumulate(rank_.stream(), other, own);
    rank_.links->link(tied_.arrival().channel).release(tied_.arrival().sequence);
  });
}

void RankActor::report_step() {
  if (!tied_.may_report()) return;
  const std::int64_t now = steady_now();
  runtime::TraceRecord record;
  record.begin = step_begin_;
  record.end = now;
  record.step = runtime::StepId(step_);
  record.kind = runtime::SpanKind::step;
  rank_.trace().add(record);
  rank_.trace().snapshot_into(records_, trace_mark_);
  const auto shares = runtime::summarize(records_, runtime::StepId(step_));

  auto& report = std::get<StepReport>(report_);
  report.rank = rank_.id().value;
  report.step = step_;
  report.squares.clear();
  for (const auto& sum : squares_) report.squares.push_back({sum.order, sum.value});
  if (rank_.plan().head_rank() == rank_.id()) losses_of(rank_, list_->microbatches, report.losses);
  report.times = {shares.wall, shares.compute, shares.bubble, shares.transport + shares.credit, shares.data};
  report.resident_bytes = resident_bytes();
  show("waits for the coordinator", runtime::no_stage, runtime::no_microbatch);
  setup_.report(report_);
}

void RankActor::fail(const WorkFailed& failure) {
  if (std::exchange(failed_, true)) return;
  StageFailed report;
  report.rank = rank_.id().value;
  report.step = step_;
  if (failure.in_action) {
    report.stage = failure.action.stage.value;
    report.microbatch = failure.action.microbatch.value;
    report.action = to_string(failure.action);
  }
  report.code = failure.code;
  report.cause = failure.cause;
  setup_.report(report);
}

// -- batches ------------------------------------------------------------------------------------------------------------------------------

/// Asks for tokens while slots are free: of this step and the first of the next; of the evaluation that runs.
void RankActor::request_batches() {
  const std::int64_t microbatches = rank_.plan().schedule.microbatches;
  const std::int64_t current = std::max(step_, setup_.first_step);
  const std::int64_t end = std::min(current + 2, setup_.steps) * microbatches;
  while (training_batches_.room() && training_batches_.requested() < end) {
    const std::int64_t number = training_batches_.request();
    send(loader_, LoadBatch{number / microbatches, number % microbatches, training_batches_.slot(number), false});
  }
  if (table_ != Table::evaluation) return;
  while (evaluation_batches_.room() && evaluation_batches_.requested() < list_->microbatches) {
    const std::int64_t number = evaluation_batches_.request();
    send(loader_, LoadBatch{step_, number, rank_.training_batches() + evaluation_batches_.slot(number), true});
  }
}

void RankActor::batch_ready(const LoadBatch& request) {
  if (request.held_out) {
    evaluation_batches_.loaded_one();
    if (table_ == Table::evaluation) carry_out(engine_.batch_ready(runtime::MicrobatchId(request.microbatch)));
    return;
  }
  training_batches_.loaded_one();
  if (table_ == Table::training && request.step == step_) carry_out(engine_.batch_ready(runtime::MicrobatchId(request.microbatch)));
}

}  // namespace millrace::actors
