#include "actors/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/sampler.hpp"
#include "runtime/engine/optimizer_step.hpp"

namespace millrace::actors {
namespace {

/// The loss from the ranks' reports.
template <class Report>
runtime::StepLoss loss_of(const std::vector<Report>& reports, int model_stages, const runtime::StepCounts& counts) {
  std::vector<runtime::LossTermSums> all;
  for (const Report& report : reports) all.insert(all.end(), report.losses.begin(), report.losses.end());
  return runtime::add_loss_terms(std::move(all), model_stages, counts);
}

/// "the loss", or "the loss term moe_lb_loss" where there are several.
std::string term_text(const runtime::StepLoss& loss) {
  return loss.terms.size() > 1 ? fmt::format("the loss term {}", loss.bad->term) : "the loss";
}

}  // namespace

Coordinator::Coordinator(CoordinatorSetup setup, CoordinatorPort& port)
    : setup_(std::move(setup)),
      port_(port),
      step_(setup_.first_step),
      saved_step_(setup_.first_step),
      ramp_(setup_.train),
      rule_(setup_.train, setup_.learning_rate, setup_.updates_before),
      reports_(static_cast<std::size_t>(setup_.ranks)),
      evaluations_(reports_.size()) {
  if (step_ > 0) rule_.restore(setup_.run_state);
}

void Coordinator::receive(const ToCoordinator& message) {
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::failing && !std::holds_alternative<ShardWritten>(message)) return;
  std::visit([this](const auto& alternative) { handle(alternative); }, message);
}

std::string Coordinator::describe() const {
  switch (phase_) {
    case Phase::starting:
      return "start";
    case Phase::evaluating:
      return fmt::format("evaluation after step {}", step_);
    case Phase::sampling:
      return "sampling";
    case Phase::draining:
    case Phase::failing:
    case Phase::ended:
      return "the end of the run";
    default:
      return fmt::format("step {}", step_ + 1);
  }
}

// -- steps --------------------------------------------------------------------------------------------------------------------------------

void Coordinator::handle(const RankReady& message) {
  planned_bytes_ = std::max<std::uint64_t>(planned_bytes_, message.planned_bytes);
  if (!all_answered()) return;
  port_.ready(planned_bytes_);
  if (step_ < setup_.train.steps) {
    // A previous start that was asked to stop saved a checkpoint and skipped the evaluation that was due then.
    if (step_ > 0 && !setup_.evaluation_recorded && evaluation_due()) return begin_evaluation();
    return begin_step();
  }
  last_ = true;  // a finished run that is started again reports its result
  if (setup_.evaluation_microbatches > 0) return begin_evaluation();
  begin_sample();
}

void Coordinator::begin_step() {
  phase_ = Phase::gradients;
  answers_ = 0;
  step_begin_ = port_.now();
  port_.to_ranks(RunStep{step_, setup_.train.find_nan, false});
}

void Coordinator::handle(const StepReport& message) {
  reports_[static_cast<std::size_t>(message.rank)] = message;
  if (all_answered()) update();
}

/// Sums the ranks' results in model order and lets them update. Nothing is updated unless loss and norm are finite, so that a bad
/// step can be replayed.
void Coordinator::update() {
  const auto loss =
      loss_of(reports_, setup_.model_stages,
              {setup_.valid_targets(step_), ramp_.microbatches(step_), setup_.train.accumulation_steps, setup_.mtp_targets(step_)});
  if (loss.bad)
    return not_finite(fmt::format("step {}: {} of microbatch {} is {}; no parameter was changed", step_ + 1, term_text(loss),
                                  loss.bad->microbatch, loss.bad->value));
  std::vector<runtime::TensorSquareSum> squares;
  for (const auto& report : reports_) {
    for (const auto& sum : report.squares) {
      if (!std::isfinite(sum.value)) {
        return not_finite(fmt::format("step {}: the gradient of {}{} is not finite (its square sum is {}); no parameter was changed",
                                      step_ + 1, sum.experts > 1 ? fmt::format("expert {} of ", sum.expert()) : "",
                                      setup_.tensors.at(static_cast<std::size_t>(sum.order)), sum.value));
      }
      squares.push_back(sum);
    }
  }
  if (!bad_step_.empty())
    return fail_step(
        ExitCode::numerics,
        fmt::format("{}. When the step was run again, all values were finite: the same computation gave two results on this machine",
                    bad_step_));
  loss_ = loss;
  std::vector<runtime::ObservedSums> observed;
  for (const auto& report : reports_) observed.insert(observed.end(), report.observed.begin(), report.observed.end());
  auto biases = runtime::bias_update(setup_.train.routed_bias_update_rate, observed, setup_.model_stages, setup_.train.accumulation_steps);
  observed_ = runtime::add_observations(std::move(observed), setup_.model_stages);
  norm_ = runtime::global_norm(squares);
  update_ = rule_.next(step_, loss_.total, norm_);
  phase_ = Phase::optimizing;
  answers_ = 0;
  port_.to_ranks(Optimize{step_, update_.update, update_.gradient_scale, update_.learning_rate, std::move(biases), update_.skipped,
                          runtime::qk_clip(setup_.train.qk_clip, observed_)});
}

/// The step is run again from its start, whose state is unchanged, so that the operation at fault raises the error.
void Coordinator::not_finite(const std::string& what) {
  if (!bad_step_.empty())
    return fail_step(ExitCode::numerics,
                     fmt::format("{} (when run again, every operation's result is finite, but their sum is not)", what));
  if (!setup_.replays || setup_.train.find_nan) return fail_step(ExitCode::numerics, what);
  bad_step_ = what;
  answers_ = 0;
  port_.to_ranks(RunStep{step_, true, true});
}

void Coordinator::handle(const Optimized&) {
  if (!all_answered()) return;
  port_.step_done(record());
  after_step();
}

StepRecord Coordinator::record() const {
  StepRecord record;
  record.step = step_ + 1;
  record.steps = setup_.train.steps;
  record.loss = loss_.total;
  record.terms = loss_.shown();
  record.experts = runtime::expert_loads(observed_);
  record.activations = runtime::layer_activations(observed_);
  record.gradient_norm = norm_;
  record.learning_rate = update_.step_rate;
  record.max_logits = runtime::largest_score(observed_);
  record.skipped = rule_.skipped();
  if (rule_.skips()) record.skipped_this = update_.skipped;
  record.tokens = setup_.train.batch * setup_.train.sequence * ramp_.microbatches(step_);
  record.targets = setup_.valid_targets(step_);
  record.data = setup_.data_progress(step_ + 1);
  record.seconds = static_cast<double>(port_.now() - step_begin_) * 1e-9;
  record.flops = setup_.flops_per_step * static_cast<double>(ramp_.microbatches(step_)) / static_cast<double>(setup_.train.microbatches);
  for (std::size_t metric = 0; metric < step_metrics.size(); ++metric) record.metrics[metric] = combined(metric);
  for (const auto& report : reports_) {
    record.ranks.push_back(report.times);
    const auto share = [](std::uint64_t used, std::uint64_t total) {
      return total == 0 ? -1.0 : static_cast<double>(used) / static_cast<double>(total);
    };
    if (share(report.device_used, report.device_total) > share(record.device_used, record.device_total)) {
      record.device_used = report.device_used;
      record.device_total = report.device_total;
    }
  }
  return record;
}

/// The ranks' values of one metric as that of the step.
double Coordinator::combined(std::size_t metric) const {
  std::vector<double> values;
  double wall = 0;
  for (const auto& report : reports_) {
    values.push_back(report.metrics.at(metric));
    wall += static_cast<double>(report.times.wall);
  }
  return combine(step_metrics[metric].combine, values, wall);
}

/// Decides what follows a step: an evaluation if due, then a checkpoint if due (so that a committed step has its evaluation on
/// record), then the next step or the end.
void Coordinator::after_step() {
  stopping_ = stopping_ || port_.stop_requested();
  last_ = stopping_ || step_ + 1 >= setup_.train.steps;
  ++step_;
  save_due_ = setup_.writes_checkpoints && (last_ || (setup_.checkpoint.every > 0 && step_ % setup_.checkpoint.every == 0));
  if (evaluation_due() && !stopping_) return begin_evaluation();
  save_and_go_on();
}

bool Coordinator::evaluation_due() const {
  if (setup_.evaluation_microbatches == 0) return false;
  return step_ >= setup_.train.steps || (setup_.evaluate.every > 0 && step_ % setup_.evaluate.every == 0);
}

void Coordinator::save_and_go_on() {
  if (std::exchange(save_due_, false)) {
    if (saving_) {  // the previous checkpoint is still being written and occupies the staging memory
      waits_for_staging_ = true;
      return;
    }
    snapshot();
    if (phase_ == Phase::ended) return;
  }
  if (last_) return begin_sample();
  begin_step();
}

// -- checkpoints --------------------------------------------------------------------------------------------------------------------------

/// The ranks copy in order with their other work, so the next phase can be sent immediately after.
void Coordinator::snapshot() {
  const auto attempt = port_.begin_checkpoint(step_);
  if (!attempt.problem.empty()) return count_save(step_, attempt.problem);
  saving_ = true;
  save_error_.clear();
  staged_ = 0;
  shards_ = 0;
  shard_reports_.clear();
  copies_.clear();
  port_.to_ranks(TakeSnapshot{step_, attempt.folder, rule_.state()});
}

void Coordinator::handle(const SnapshotTaken& message) {
  ++staged_;
  for (const auto& hash : message.copies) {
    const auto same = std::find_if(copies_.begin(), copies_.end(), [&](const CopyHash& other) { return other.name == hash.name; });
    if (same == copies_.end()) {
      copies_.push_back(hash);
    } else if (same->hash != hash.hash) {
      return fail_run(ExitCode::internal,
                      fmt::format("step {}: the copies of {} differ ({} and {})", message.step, hash.name, same->hash, hash.hash));
    }
  }
}

void Coordinator::handle(const ShardWritten& message) {
  ++shards_;
  if (!message.error.empty() && save_error_.empty()) save_error_ = fmt::format("{}: {}", setup_.rank_text(message.rank), message.error);
  if (!message.report.empty()) shard_reports_.push_back(message.report);
  if (shards_ < setup_.ranks) return;  // also after an error, since the other ranks still write to the folder
  if (!save_error_.empty()) return port_.discard_checkpoint(message.step, save_error_);
  port_.commit_checkpoint(message.step, shard_reports_);
}

/// Training continues if a checkpoint or two fail, but a run must not end successfully while its result is not on the disk.
void Coordinator::count_save(std::int64_t step, const std::string& error) {
  failed_saves_ = error.empty() ? 0 : failed_saves_ + 1;
  if (error.empty()) {
    saved_step_ = step;
    return;
  }
  const auto kept = saved_step_ > 0 ? fmt::format("The run can be resumed from its checkpoint of step {}", saved_step_)
                                    : std::string("The run has no checkpoint: the same command begins anew");
  if (failed_saves_ >= 3)
    return fail_run(ExitCode::storage,
                    fmt::format("the last three checkpoints could not be written, the newest that of step {}: {}. {}", step, error, kept));
  if (last_ && step == step_)
    fail_run(ExitCode::storage, fmt::format("the checkpoint of step {}, the last, could not be written: {}. {}", step, error, kept));
}

void Coordinator::committed(std::int64_t step, const std::string& error) {
  if (phase_ == Phase::ended) return;
  saving_ = false;
  if (phase_ == Phase::failing) return fail_run(failure_code_, failure_);
  count_save(step, error);
  if (phase_ == Phase::ended) return;
  if (std::exchange(waits_for_staging_, false)) {
    save_due_ = true;
    return save_and_go_on();
  }
  if (phase_ == Phase::sampling) return begin_sample();
  if (phase_ == Phase::draining) drain();
}

// -- evaluation and sample ----------------------------------------------------------------------------------------------------------------

void Coordinator::begin_evaluation() {
  phase_ = Phase::evaluating;
  answers_ = 0;
  abandoned_ = false;
  port_.to_ranks(Evaluate{step_, setup_.evaluation_microbatches, setup_.evaluate.average});
}

/// Parameters with a loss that is not finite are neither trained further nor saved: the previous checkpoint is the one to resume
/// from.
void Coordinator::handle(const EvaluationReport& message) {
  evaluations_[static_cast<std::size_t>(message.rank)] = message;
  if (!all_answered()) return;
  if (abandoned_) return save_and_go_on();
  const auto loss = loss_of(evaluations_, setup_.model_stages,
                            {.valid_targets = setup_.evaluation_targets,
                             .microbatches = setup_.evaluation_microbatches,
                             .mtp_targets = setup_.evaluation_mtp_targets,
                             .mtp_eval_targets = setup_.evaluation_mtp_eval_targets});
  if (loss.bad) {
    const auto has_it = [&](const EvaluationReport& report) {
      return std::ranges::find(report.losses, loss.bad->stage, &runtime::LossTermSums::stage) != report.losses.end();
    };
    const auto rank = std::ranges::find_if(evaluations_, has_it) - evaluations_.begin();
    return fail_step(
        ExitCode::numerics,
        fmt::format("{}, stage {}, {}: {} of held-out microbatch {} is {}; the step was not saved, and the run ends",
                    setup_.rank_text(rank), loss.bad->stage, describe(), term_text(loss), loss.bad->microbatch, loss.bad->value));
  }
  port_.evaluated({step_, loss.main, setup_.evaluation_targets, loss.shown(), setup_.train.loss == "cross_entropy"});
  save_and_go_on();
}

void Coordinator::stop() {
  stopping_ = true;  // checked by after_step() and after each token of a sample
  if (phase_ != Phase::evaluating || std::exchange(abandoned_, true)) return;
  port_.to_ranks(Evaluate{step_, 0});
  last_ = true;
  save_due_ = setup_.writes_checkpoints && step_ > setup_.first_step;  // the state that the run began with is on the disk already
}

void Coordinator::begin_sample() {
  if (setup_.sample.tokens <= 0 || stopping_) return drain();
  phase_ = Phase::sampling;
  if (saving_) return;  // first save the result of the run: committed() returns here
  sample_ = setup_.prompt;
  next_sample_token();
}

void Coordinator::next_sample_token() {
  answers_ = 0;
  const auto window = static_cast<std::size_t>(setup_.train.sequence);
  const std::size_t used = std::min(window, sample_.size());
  ComputeLogits request;
  request.tokens.assign(sample_.end() - static_cast<std::ptrdiff_t>(used), sample_.end());
  request.position = static_cast<std::int64_t>(used) - 1;
  request.tokens.resize(window, 0);  // tokens after the position are masked for it
  port_.to_ranks(request);
}

void Coordinator::handle(const LogitsReport& message) {
  if (!message.logits.empty()) {
    const auto index = static_cast<std::uint64_t>(sample_.size());
    sample_.push_back(sample_token(message.logits, setup_.sample.temperature, static_cast<std::uint64_t>(setup_.train.seed), index));
  }
  if (!all_answered()) return;
  const auto written = static_cast<std::int64_t>(sample_.size() - setup_.prompt.size());
  if (stopping_) return drain();
  if (written < setup_.sample.tokens) return next_sample_token();
  port_.sampled(sample_);
  drain();
}

// -- the end ------------------------------------------------------------------------------------------------------------------------------

void Coordinator::drain() {
  phase_ = Phase::draining;
  if (saving_) return;  // committed() returns here
  phase_ = Phase::ended;
  port_.to_ranks(Stop{});
  port_.finished(ExitCode::ok, stopping_ ? fmt::format("stopped after step {} as requested", step_) : "");
}

void Coordinator::handle(const Collected&) {}

void Coordinator::handle(const StageFailed& message) {
  const auto code = static_cast<ExitCode>(message.code);
  if (!bad_step_.empty()) return fail_step(code, fmt::format("{}. Run again: {}", bad_step_, message.cause));
  fail_step(code, message.action.empty() ? fmt::format("{}: {}", setup_.rank_text(message.rank), message.cause)
                                         : fmt::format("{}, stage {}, {}, microbatch {}, action {}: {}", setup_.rank_text(message.rank),
                                                       message.stage, describe(), message.microbatch, message.action, message.cause));
}

/// The failure that stopped the ranks cannot affect a checkpoint that all ranks have staged, so its steps are still saved.
void Coordinator::fail_step(ExitCode code, const std::string& message) {
  if (!saving_ || staged_ < setup_.ranks) return fail_run(code, message);
  phase_ = Phase::failing;  // committed() ends the run
  failure_code_ = code;
  failure_ = message;
}

void Coordinator::fail_run(ExitCode code, const std::string& message) {
  phase_ = Phase::ended;
  port_.finished(code, message);
}

}  // namespace millrace::actors
