#include "actors/rank/rank_control.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "actors/rank/collect.hpp"
#include "actors/rank/list_results.hpp"
#include "actors/rank/rank_metrics.hpp"
#include "actors/rank/step_times.hpp"

namespace millrace::actors {
namespace {

std::vector<int> uses_of(const runtime::RankPlan& plan) {
  std::vector<int> uses(static_cast<std::size_t>(plan.own_microbatches), 0);
  for (const auto& planned : plan.entries)
    if (planned.ends_action()) ++uses[static_cast<std::size_t>(plan.own.before(planned.action.microbatch.value))];
  return uses;
}

/// True for the first steps and then periodically: the query takes the driver's lock, and memory in use hardly changes after the
/// first steps.
bool asks_device(std::int64_t steps_reported) { return steps_reported < 3 || steps_reported % 128 == 0; }

runtime::RankEngine::Options engine_options(const Rank& rank, int issue_ahead) {
  const bool divides_leaves = rank.plan().divides_sums() && rank.adds_with_replicas();
  return {.rank = rank.id(),
          .edges = rank.plan().edges,
          .depths = rank.plan().ledger.depths,
          .issue_ahead = issue_ahead > 0 ? issue_ahead : rank.issue_ahead(),
          .leaves = divides_leaves ? rank.plan().leaf_slots() : 0};
}

}  // namespace

RankControl::RankControl(RankControlSetup setup, RankPort& port)
    : setup_(std::move(setup)),
      port_(port),
      rank_(*setup_.rank),
      engine_(engine_options(rank_, setup_.issue_ahead)),
      training_batches_(rank_.training_batches(), batches_before(setup_.first_step)),
      evaluation_batches_(rank_.evaluation_batches()),
      training_uses_(uses_of(rank_.training_plan())),
      evaluation_uses_(uses_of(rank_.evaluation_plan())),
      sum_exchange_(rank_.plan(), rank_.id()),
      weight_slots_(rank_.compute().weight_slots()),
      tasks_(rank_, sum_exchange_),
      nan_hook_(rank_, setup_.nan_folder) {
  if (!setup_.hash_directory.empty()) {
    const auto& plan = rank_.plan();
    hash_hook_.emplace(rank_, setup_.hash_directory, setup_.first_step,
                       SourceMicrobatches{plan.expert_group(rank_.id()).group.member, plan.expert_groups()});
    hash_hook_->next = rank_.set_hook(&*hash_hook_);
  }
  // For each entry its record and that of a wait, with replicas of two waits (for weights, then for a boundary); and those of a step's end.
  records_.reserve((rank_.adds_with_replicas() ? 3 : 2) * rank_.training_plan().entries.size() + 8);
  for (const auto& channel : rank_.plan().channels()) {
    arrived_.emplace_back(static_cast<std::size_t>(channel.depth), nullptr);
    produced_.emplace_back(static_cast<std::size_t>(channel.depth), 0);
  }
}

void RankControl::begin() {
  request_batches();
  port_.report(RankReady{rank_.id().value, rank_.planned_bytes()});
}

void RankControl::receive(const ToRank& message) {
  if (!deferred_.empty() || !may_handle(message)) {
    deferred_.push_back(message);
    return show_transfers();
  }
  handle_any(message);
}

void RankControl::handle_any(const ToRank& message) {
  std::visit([this](const auto& phase) { handle(phase); }, message);
}

void RankControl::boundary_arrived(const cluster::Arrival& arrival) {
  const auto channel = static_cast<std::size_t>(arrival.channel);
  if (channel >= rank_.plan().edges.size()) {
    if (sum_exchange_.arrived(arrival)) add_sums();
    return;
  }
  const auto slot = static_cast<std::size_t>(arrival.sequence) % arrived_[channel].size();
  arrived_[channel][slot] = arrival.data;
  produced_[channel][slot] = arrival.producer_finish_ns;
  carry_out(engine_.boundary_arrived(runtime::EdgeId(arrival.channel), arrival.sequence));
}

void RankControl::slot_writable(int channel, std::int64_t sequence) {
  if (static_cast<std::size_t>(channel) >= rank_.plan().edges.size()) {
    if (sum_exchange_.writable()) report_step();
    return;
  }
  carry_out(engine_.credit_returned(runtime::EdgeId(channel), sequence));
}

void RankControl::exchange_ended(std::int64_t sequence) {
  const runtime::PlannedExchange* planned = engine_.exchange(sequence);
  const RankExchange::Transfer transfer = rank_.exchange().transfer(sequence);
  if (planned != nullptr && transfer.used) {
    runtime::ExchangeRecord record;
    record.begin = transfer.begin;
    record.end = transfer.end;
    record.bytes = transfer.bytes;
    record.step = runtime::StepId(step_);
    record.stage = planned->action.stage;
    record.microbatch = planned->action.microbatch;
    record.number = planned->number;
    record.action = planned->action.kind;
    rank_.exchange_trace().add(record);
    exchange_bytes_ += record.bytes;
  }
  carry_out(engine_.exchange_ended(sequence));
}

// -- phases -------------------------------------------------------------------------------------------------------------------------------

void RankControl::handle(const RunStep& message) {
  step_ = message.step;
  const std::int64_t microbatches = rank_.plan().ramp.microbatches(step_);
  const auto& batches = *setup_.batches;
  rank_.compute().set_loss_scales(
      {batches.valid_targets(step_), microbatches, rank_.plan().accumulation_steps, batches.mtp_targets(step_)});
  if (message.find_nan && hash_hook_) hash_hook_->next = &nan_hook_;
  if (message.find_nan && !hash_hook_) rank_.set_hook(&nan_hook_);
  if (message.again) {
    port_.work({RankTaskKind::clear, {}});
    training_batches_ = BatchWindow(rank_.training_batches(), batches_before(step_));
    ++batches_turn_;
  }
  sum_exchange_.begin();
  trace_mark_ = rank_.trace().count();
  exchange_bytes_ = 0;
  start(Table::training, rank_.training_plan(microbatches), step_);
}

void RankControl::handle(const Evaluate& message) {
  if (message.microbatches == 0) {
    // Members of an exchange, and those who gather weights together, leave none out: they abandon nothing.
    abandoned_ = table_ == Table::evaluation && list_->exchanges.empty() && !rank_.plan().divides_masters();
    return;
  }
  step_ = message.step;
  evaluation_batches_ = BatchWindow(rank_.evaluation_batches());
  averages_in_place_ = message.average;
  if (averages_in_place_) exchange_averages();  // before the actions, which the worker gets after it
  start(Table::evaluation, rank_.evaluation_plan(), message.step);
}

void RankControl::handle(const ComputeLogits& message) {
  // Everything after the text is padding and is masked.
  const auto places = rank_.compute().batch(rank_.training_batches());
  const auto sequence = static_cast<std::size_t>(rank_.plan().sequence);
  runtime::pad(places);
  for (std::size_t i = 0; i < places.tokens.size(); ++i) {
    places.tokens[i] = i < message.tokens.size() ? message.tokens[i] : 0;
    places.positions[i] = i < message.positions.size() ? message.positions[i] : static_cast<std::int32_t>(i % sequence);
    places.segments[i] = i < message.segments.size() ? message.segments[i] : i < message.tokens.size() ? 1 : 0;
  }
  rank_.complete(places);
  logits_position_ = message.position;
  start(Table::logits, rank_.logits_plan(), step_);
}

void RankControl::handle(const Optimize& message) {
  const runtime::UpdateScalars scalars{message.learning_rate, static_cast<float>(message.gradient_scale), message.update, message.skip};
  show("optimizer", runtime::no_stage, runtime::no_microbatch);
  tasks_.set_bias_update(message.biases);
  tasks_.set_qk_clip(message.scores);
  skipped_ = message.skip;
  port_.work({RankTaskKind::optimizer, scalars});
}

void RankControl::handle(const TakeSnapshot& message) {
  snapshots_.push_back(message);
  show("snapshot", runtime::no_stage, runtime::no_microbatch);
  port_.work({RankTaskKind::snapshot, {}});
}

void RankControl::handle(const Collect& message) {
  collect(rank_, message.parameters, setup_.captured ? setup_.captured() : std::vector<CapturedTensor>(),
          [this](const ToCoordinator& report) { port_.report(report); });
}

void RankControl::handle(const Stop&) { port_.stopped(); }

// -- the engine ---------------------------------------------------------------------------------------------------------------------------

void RankControl::start(Table table, const runtime::RankPlan& plan, std::int64_t step) {
  table_ = table;
  list_ = &plan;
  if (table == Table::training) {
    if (training_uses_.size() != static_cast<std::size_t>(plan.own_microbatches)) training_uses_ = uses_of(plan);
    training_batches_.begin(training_uses_);
  }
  if (table == Table::evaluation) evaluation_batches_.begin(evaluation_uses_);
  wait_ = WaitClock();
  idle_since_ = 0;
  actions_done_ = 0;
  begun_batches_.assign(static_cast<std::size_t>(plan.microbatches), false);
  step_begin_ = runtime::steady_now();
  abandoned_ = false;
  if (rank_.adds_with_replicas()) begin_transfers();
  starting_ = true;  // batches that were loaded ahead are available
  carry_out(engine_.start(plan, runtime::StepId(step)));
  starting_ = false;
  request_batches();
  if (plan.entries.empty()) return;  // an evaluation with fewer microbatches than copies has ended here already
  // Batches that were loaded ahead.
  if (table == Table::logits) {
    // Every replica that the rank has a stage of runs the same tokens.
    for (int n = 0; n < plan.own_microbatches; ++n) carry_out(engine_.batch_ready(runtime::MicrobatchId(plan.own.number(n))));
    return;
  }
  if (table == Table::training) {
    const std::int64_t ready = std::min<std::int64_t>(training_batches_.loaded() - batches_before(step), plan.own_microbatches);
    for (std::int64_t n = 0; n < ready; ++n) carry_out(engine_.batch_ready(runtime::MicrobatchId(plan.own.number(n))));
  }
  note_wait();
}

void RankControl::carry_out(const runtime::Decisions& decisions) {
  for (const auto& slot : decisions.sends)
    if (!rank_.leaves_in_parts(slot.edge.value))
      rank_.link(slot.edge.value).send(slot.sequence, rank_.plan().boundary_bytes(slot.edge), finished_at_);
  for (const auto& slot : decisions.releases) rank_.link(slot.edge.value).release(slot.sequence);
  for (const auto& decision : decisions.issues) issue(decision);
  const bool finished = decisions.finished;
  note_wait();
  if (finished) list_finished();
  pass_over();
}

/// Completes an abandoned evaluation: boundaries, credits and batches are balanced, and slots are sent with whatever they
/// contain.
void RankControl::pass_over() {
  if (passing_over_) return;  // already running further up the call stack
  passing_over_ = true;
  while (!passed_over_.empty() && passed_over_.front().index == engine_.finished()) {
    const auto issue = passed_over_.front();
    passed_over_.pop_front();
    finished_at_ = runtime::steady_now();
    if (issue.output.present() && rank_.leaves_in_parts(issue.output.edge.value)) {
      auto& link = rank_.link(issue.output.edge.value);
      const std::size_t bytes = rank_.plan().boundary_bytes(issue.output.edge);
      link.begin(issue.output.sequence, bytes, finished_at_);
      link.ready(issue.output.sequence, bytes);
    }
    evaluation_batches_.used(own_place(issue.action.microbatch));
    request_batches();
    carry_out(engine_.entry_finished(issue.action));
  }
  passing_over_ = false;
}

/// The link's place of a ring slot: for an incoming boundary where it arrived, for everything else where the link says.
std::byte* RankControl::link_address(const runtime::RingSlot& slot, bool incoming) const {
  if (!slot.present()) return nullptr;
  const auto& edge = rank_.plan().edges[slot.edge.index()];
  if (incoming && !edge.local()) return arrived_[slot.edge.index()][static_cast<std::size_t>(slot.slot)];
  return rank_.link(slot.edge.value).slot(slot.sequence);
}

/// The place at which the rank's programs read or write it.
std::byte* RankControl::address(const runtime::RingSlot& slot, bool incoming) const {
  std::byte* at = link_address(slot, incoming);
  return at == nullptr ? nullptr : rank_.program_place(slot.edge.value, at, incoming);
}

/// The boundary that the action is the first to read, and the one that it produces.
void RankControl::copies_of(const runtime::Issue& issue, Execute& execute) const {
  const PipelinePlan& plan = rank_.plan();
  const auto& first_read = runtime::makes_gradient(issue.action.kind) ? issue.gradient : issue.activation;
  if (first_read.present() && issue.action.kind != runtime::ActionKind::weight_gradient && issue.segment == 0)
    execute.arrival = rank_.incoming(first_read.edge.value, link_address(first_read, true), plan.boundary_bytes(first_read.edge));
  if (issue.output.present() && issue.segment + 1 == issue.segments)
    execute.departure = rank_.outgoing(issue.output.edge.value, link_address(issue.output, false), plan.boundary_bytes(issue.output.edge),
                                       issue.output.sequence);
}

void RankControl::issue(const runtime::Issue& issue) {
  if (abandoned_) return passed_over_.push_back(issue);
  const auto microbatch = issue.action.microbatch.value;
  const bool last = rank_.plan().is_last(issue.action.stage);
  Execute execute;
  execute.index = issue.index;
  execute.step = step_;
  execute.action = issue.action;
  execute.segment = issue.segment;
  execute.segments = issue.segments;
  execute.first_exchange = issue.first_exchange;
  execute.posts = issue.posts;
  execute.pass = table_ == Table::training ? runtime::pass_of(issue.action.kind)
                                           : (table_ == Table::logits && last ? runtime::Pass::logits : runtime::Pass::evaluate);
  auto& slots = execute.slots;
  const bool makes_gradient = runtime::makes_gradient(issue.action.kind);
  slots.boundary_in = address(issue.activation, true);
  slots.gradient_in = address(issue.gradient, true);
  (makes_gradient ? slots.gradient_out : slots.boundary_out) = address(issue.output, false);
  copies_of(issue, execute);
  slots.stash_input = std::max(issue.stash_input, 0);
  slots.stash_weight = std::max(issue.stash_weight, 0);
  slots.handoff = std::max(issue.handoff, 0);
  slots.workspace = issue.strand;
  const auto& plan = rank_.plan();
  const runtime::PlannedEntry& planned = list_->entries[static_cast<std::size_t>(issue.index)];
  switch (table_) {
    case Table::training:
      slots.batch = training_batches_.slot(batches_before(step_) + list_->own.before(microbatch));
      slots.accumulators = plan.leaves ? std::max(planned.leaf, 0) % plan.leaf_slots() : plan.accumulator_set(microbatch);
      slots.expert_accumulators = plan.expert_accumulator_set(microbatch);
      break;
    case Table::evaluation:
      slots.batch = rank_.training_batches() + evaluation_batches_.slot(list_->own.before(microbatch));
      break;
    default:
      slots.batch = rank_.training_batches();
      break;
  }
  slots.result = result_slot(rank_, issue.action.microbatch);
  execute.completes = completes(planned);
  execute.first_of_batch = std::exchange(begun_batches_[issue.action.microbatch.index()], char{1}) == 0;

  const auto& waited_for = makes_gradient ? issue.gradient : issue.activation;
  const std::int64_t produced = waited_for.present() && issue.segment == 0 && !plan.edges[waited_for.edge.index()].local()
                                    ? produced_[waited_for.edge.index()][static_cast<std::size_t>(waited_for.slot)]
                                    : 0;
  end_wait(produced);
  show(to_string(runtime::span_of(issue.action.kind)), issue.action.stage, issue.action.microbatch);
  if (!std::exchange(begun_, true)) port_.begun();
  port_.execute(execute);
}

void RankControl::action_done(const ActionDone& action) {
  if (failed_) return;
  runtime::TraceRecord record;
  record.begin = action.begin;
  record.end = action.end;
  record.step = runtime::StepId(step_);
  record.stage = action.action.stage;
  record.microbatch = action.action.microbatch;
  record.kind = runtime::span_of(action.action.kind);
  record.segment = static_cast<std::uint16_t>(std::min<std::int32_t>(action.segment, std::numeric_limits<std::uint16_t>::max()));
  rank_.trace().add(record);
  finished_at_ = action.end;
  if (setup_.action_costs != nullptr && table_ == Table::training)
    setup_.action_costs->add(step_, action.action, action.segment, action.end - action.begin, action.host);
  const runtime::PlannedEntry& entry = list_->entries[static_cast<std::size_t>(engine_.finished())];
  const bool ends_action = entry.ends_action();
  actions_done_ += ends_action ? 1 : 0;
  if (ends_action && table_ == Table::training) training_batches_.used(own_place(action.action.microbatch));
  if (ends_action && table_ == Table::evaluation) evaluation_batches_.used(own_place(action.action.microbatch));
  request_batches();
  if (ends_action) note_gradients(entry);
  free_slots(engine_.finished() + 1);
  carry_out(engine_.entry_finished(action.action, action.segment));
  if (rank_.adds_with_replicas()) note_transfers();
}

/// The worker is idle and the list is not finished: records since when, and why.
void RankControl::note_wait() {
  if (starting_ || transfer_tasks_ > 0) return;
  const auto wait = engine_.wait();
  if (wait.reason == runtime::WaitReason::none || wait.reason == runtime::WaitReason::compute) return;
  wait_.blocked(wait, std::max(step_begin_, finished_at_));
  std::array<char, sizeof(cluster::Progress::action)> text;  // on the stack, since this runs between actions
  const auto end = fmt::format_to_n(text.data(), text.size(), "waits for {}", awaited(wait));
  show({text.data(), std::min(end.size, text.size())}, wait.action.stage, wait.action.microbatch, wait);
}

/// The worker goes on: records how long it had nothing to do. `produced`: when the producer of what it gets had finished, 0 if unknown.
void RankControl::end_wait(std::int64_t produced) {
  runtime::TraceRecord record;
  if (wait_.issued(runtime::StepId(step_), produced, runtime::steady_now(), record)) rank_.trace().add(record);
}

/// What the next entry waits for: of an exchange its name in the program, "layers.3.mlp.dispatch".
std::string_view RankControl::awaited(const runtime::Wait& wait) const {
  if (wait.reason == runtime::WaitReason::weights) return "parameters of replicas";
  if (wait.reason == runtime::WaitReason::replicas) return "gradients of replicas";
  if (wait.reason != runtime::WaitReason::exchange || !rank_.plan().rehearsed_shapes.empty()) return to_string(wait.reason);
  const runtime::Pass pass = table_ == Table::training ? runtime::pass_of(wait.action.kind) : runtime::Pass::evaluate;
  const runtime::Stage& stage = rank_.compute().stage(wait.action.stage);
  const runtime::ExchangeId id = stage.segments(pass).at(static_cast<std::size_t>(wait.segment)).awaits;
  return stage.programs(pass).exchanges.at(static_cast<std::size_t>(id.index)).name;
}

void RankControl::show(std::string_view what, runtime::StageId stage, runtime::MicrobatchId microbatch, const runtime::Wait& wait) {
  cluster::Progress progress;
  progress.rank = rank_.id().value;
  progress.stage = stage.value;
  progress.microbatch = microbatch.value;
  progress.step = step_ + 1;
  progress.peer = wait.peer.value;
  progress.peer_stage = wait.stage.value;
  progress.wait = static_cast<std::int32_t>(wait.reason);
  progress.exchange = wait.exchange;
  if (rank_.replicas() != nullptr) progress.transfers = rank_.replicas()->completed();
  if (table_ == Table::training) progress.finished = actions_done_;
  progress.set_action(what);
  rank_.set_progress(progress);
}

void RankControl::list_finished() {
  const auto table = std::exchange(table_, Table::none);
  switch (table) {
    case Table::training:
      return rank_.adds_with_replicas() ? wait_for_sums() : port_.work({RankTaskKind::sums, {}});
    case Table::evaluation: {
      EvaluationReport report{rank_.id().value, {}};
      losses_of(rank_, *list_, report.losses);
      show_idle();
      if (!averages_in_place_) return port_.report(report);
      averaged_ = std::move(report);
      if (weights_ == Weights::here) end_averages();
      return;
    }
    case Table::logits:
      show_idle();
      return port_.report(LogitsReport{rank_.id().value, logits_of(rank_, *list_, logits_position_)});
    case Table::none:
      return;
  }
}

void RankControl::perform(const RankTask& task) {
  if (hash_hook_ && (task.work == RankTaskKind::optimizer || task.work == RankTaskKind::clear)) hash_hook_->end_step();
  tasks_.perform(task);
}

void RankControl::perform_then(const RankTask& task, const Completion& completion) {
  if (completion.error != nullptr) throw *completion.error;
  tasks_.finish(task);
}

// -- after a training list ----------------------------------------------------------------------------------------------------------------

void RankControl::work_done(const TaskDone& finished) {
  const auto trace = [&](runtime::SpanKind kind, std::int64_t step) { trace_task(kind, finished, step); };
  switch (finished.work) {
    case RankTaskKind::clear:
      return;
    case RankTaskKind::sums:
      trace(runtime::SpanKind::optimizer, step_);
      return sums_complete();
    case RankTaskKind::sums_added:
      trace(runtime::SpanKind::optimizer, step_);
      transfer_done(finished);
      if (sum_exchange_.next_round()) return send_sums();
      idle_since_ = 0;
      return port_.work({RankTaskKind::squares, {}});
    case RankTaskKind::sums_sent:
      trace(runtime::SpanKind::optimizer, step_);
      transfer_done(finished);
      if (sum_exchange_.sent()) add_sums();
      return;
    case RankTaskKind::squares:
      trace(runtime::SpanKind::optimizer, step_);
      return report_step();
    case RankTaskKind::optimizer:
      trace(runtime::SpanKind::optimizer, step_);
      weight_slots_.clear();
      if (rank_.adds_with_replicas() && !rank_.plan().divides_masters() && !skipped_) gather(true);
      update_waits_ = setup_.gathers_first && weights_ != Weights::here;
      if (!update_waits_) show_idle();
      if (!update_waits_) port_.report(Optimized{rank_.id().value, step_});
      return;
    case RankTaskKind::averages:
      if (rank_.plan().divides_masters())
        free_slots(engine_.finished());  // of an evaluation, whose gathers waited for this
      else if (rank_.adds_with_replicas())
        gather(false);
      return;
    case RankTaskKind::list_sum:
    case RankTaskKind::transfers:
      return transfers_done(finished);
    case RankTaskKind::uses:
      trace(runtime::SpanKind::optimizer, step_);
      return;
    case RankTaskKind::snapshot: {
      TakeSnapshot snapshot = std::move(snapshots_.front());
      snapshots_.pop_front();
      const std::int64_t step = snapshot.step;
      trace(runtime::SpanKind::snapshot, step - 1);  // it belongs to the step that it follows
      port_.report(SnapshotTaken{rank_.id().value, step, tasks_.copy_hashes()});
      if (rank_.id().value != 0) snapshot.run.clear();
      return port_.write_shard({rank_.id().value, step, std::move(snapshot.folder), std::move(snapshot.run)});
    }
  }
}

void RankControl::trace_task(runtime::SpanKind kind, const TaskDone& finished, std::int64_t step) {
  runtime::TraceRecord record;
  record.begin = finished.begin;
  record.end = finished.end;
  record.step = runtime::StepId(step);
  record.kind = kind;
  rank_.trace().add(record);
}

void RankControl::report_step() {
  if (!sum_exchange_.may_report()) return;
  const std::int64_t now = runtime::steady_now();
  runtime::TraceRecord record;
  record.begin = step_begin_;
  record.end = now;
  record.step = runtime::StepId(step_);
  record.kind = runtime::SpanKind::step;
  rank_.trace().add(record);
  rank_.trace().snapshot_into(records_, trace_mark_);
  auto& report = std::get<StepReport>(report_);
  report.rank = rank_.id().value;
  report.step = step_;
  report.squares = tasks_.squares();
  losses_of(rank_, *list_, report.losses);
  observations_of(rank_, *list_, report.observed);
  report.times = step_times(runtime::summarize(records_, runtime::StepId(step_)));
  measure_step(report.times, {exchange_bytes_, take_replica_bytes()}, report.metrics);
  look_at_device();
  report.device_used = device_memory_.used;
  report.device_total = device_memory_.total;
  show_idle();
  port_.report(report_);
}

/// No list and no task is under way: what the rank waited for before is here.
void RankControl::show_idle() { show("waits for the coordinator", runtime::no_stage, runtime::no_microbatch); }

void RankControl::look_at_device() {
  if (setup_.device_memory && asks_device(steps_reported_)) device_memory_ = setup_.device_memory();
  ++steps_reported_;
}

void RankControl::failed(const TaskFailed& failure) {
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
  port_.report(report);
}

// -- batches ------------------------------------------------------------------------------------------------------------------------------

std::int64_t RankControl::batches_before(std::int64_t step) const {
  return rank_.training_plan().own.before(rank_.plan().ramp.before(step));
}

std::size_t RankControl::own_place(runtime::MicrobatchId microbatch) const {
  return static_cast<std::size_t>(list_->own.before(microbatch.value));
}

/// Requests batches while slots are free: of this step and the first ones of the next, or of the running evaluation.
void RankControl::request_batches() {
  const runtime::BatchRamp& ramp = rank_.plan().ramp;
  const std::int64_t current = std::max(step_, setup_.first_step);
  const std::int64_t end = batches_before(std::min(current + 2, setup_.steps));
  const runtime::RankMicrobatches& own = rank_.training_plan().own;
  while (training_batches_.room() && training_batches_.requested() < end) {
    const std::int64_t number = training_batches_.request();
    const std::int64_t microbatch = own.number(number);  // over the whole run
    const std::int64_t step = ramp.step_of(microbatch);
    port_.load({step, microbatch - ramp.before(step), training_batches_.slot(number), false, batches_turn_});
  }
  if (table_ != Table::evaluation) return;
  while (evaluation_batches_.room() && evaluation_batches_.requested() < list_->own_microbatches) {
    const std::int64_t number = evaluation_batches_.request();
    port_.load({step_, list_->own.number(number), rank_.training_batches() + evaluation_batches_.slot(number), true, 0});
  }
}

void RankControl::batch_ready(const LoadBatch& request) {
  if (request.held_out) {
    evaluation_batches_.loaded_one();
    if (table_ == Table::evaluation) carry_out(engine_.batch_ready(runtime::MicrobatchId(request.microbatch)));
    return;
  }
  if (request.turn != batches_turn_) return;
  training_batches_.loaded_one();
  if (table_ == Table::training && request.step == step_) carry_out(engine_.batch_ready(runtime::MicrobatchId(request.microbatch)));
}

}  // namespace millrace::actors
