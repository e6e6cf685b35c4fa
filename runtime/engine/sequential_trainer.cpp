#include "runtime/engine/sequential_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/engine/load_balance.hpp"
#include "runtime/schedule/global_order.hpp"

namespace millrace::runtime {
namespace {

/// One slot of everything; a ring is at its receiver.
std::vector<RankStage> with_single_slots(std::vector<RankStage> stages) {
  for (RankStage& stage : stages) {
    const bool first = &stage == &stages.front(), last = &stage == &stages.back();
    stage.slots = {1, 1, 1, first ? 0 : 1, 0, last ? 0 : 1, 0, 1};
  }
  return stages;
}

RankOptions with_one_batch(RankOptions options) {
  options.batches = 1;
  return options;
}

std::int64_t count_targets(const BatchView& batch) {
  return std::count_if(batch.targets.begin(), batch.targets.end(), [](std::int32_t target) { return target >= 0; });
}

/// The loss terms of all stages, without sums.
std::vector<LossTermSums> loss_terms(const RankCompute& rank) {
  std::vector<LossTermSums> terms;
  for (const Stage* stage : rank.stages())
    for (const StageLoss& loss : stage->losses()) terms.push_back({stage->stage().value, loss.term, {}});
  return terms;
}

/// Appends the terms of the microbatch that has just run.
void add_losses(const RankCompute& rank, std::vector<LossTermSums>& terms) {
  auto next = terms.begin();
  for (const Stage* stage : rank.stages())
    for (std::size_t term = 0; term < stage->losses().size(); ++term) (next++)->sums.push_back(stage->loss_sum(term, 0));
}

/// The observations of all stages, without sums.
std::vector<ObservedSums> observations(const RankCompute& rank) {
  std::vector<ObservedSums> all;
  for (const Stage* stage : rank.stages())
    for (const StageObservation& observation : stage->observations()) {
      const ValueType& type = stage->programs().value(observation.value).type;
      const auto width = static_cast<std::size_t>(type.shape.elements());
      all.push_back({stage->stage().value, observation.layer, observation.name, observation.scope, static_cast<std::int32_t>(width), {}});
      if (type.dtype == kernels::DType::i32) all.back().values.resize(width);
    }
  return all;
}

/// Adds the entries of the microbatch that has just run; those that are not integers are appended.
void add_observations_of(const RankCompute& rank, std::vector<ObservedSums>& sums) {
  auto next = sums.begin();
  for (const Stage* stage : rank.stages())
    for (std::size_t place = 0; place < stage->observations().size(); ++place) {
      ObservedSums& own = *next++;
      if (stage->programs().value(stage->observations()[place].value).type.dtype != kernels::DType::i32)
        own.values.resize(own.values.size() + static_cast<std::size_t>(own.width));
      stage->add_observed(place, 0, std::span(own.values).last(static_cast<std::size_t>(own.width)));
    }
}

}  // namespace

StepLoss StraightSums::mean() const {
  int stages = 0;
  for (const LossTermSums& term : losses) stages = std::max(stages, term.stage + 1);
  return add_loss_terms(losses, stages, {targets, microbatches});
}

SequentialTrainer::SequentialTrainer(std::vector<RankStage> stages, RankOptions options)
    : mode_(options.mode),
      accumulators_(options.accumulators),
      expert_accumulators_(options.expert_accumulators),
      rank_(with_single_slots(std::move(stages)), with_one_batch(options)) {}

ExecutionSlots SequentialTrainer::slots_of(std::size_t position) const {
  const auto& stages = rank_.stages();
  const auto ring = [&](MemoryKind kind, std::size_t receiver) {
    return receiver < stages.size() ? rank_.memory().slot_or_null(kind, stages[receiver]->stage()) : nullptr;
  };
  ExecutionSlots slots;
  slots.boundary_in = ring(MemoryKind::boundary_in, position);
  slots.boundary_out = ring(MemoryKind::boundary_in, position + 1);
  slots.gradient_in = ring(MemoryKind::gradient_in, position);
  slots.gradient_out = position > 0 ? ring(MemoryKind::gradient_in, position - 1) : nullptr;
  return slots;
}

void SequentialTrainer::backward(const kernels::ExecutionContext& context, std::int64_t microbatch, OperationHook* hook) {
  const GlobalOrder order(1);
  for (std::size_t position = rank_.stages().size(); position-- > 0;) {
    ExecutionSlots slots = slots_of(position);
    slots.accumulators = order.set(microbatch, accumulators_);
    slots.expert_accumulators = order.set(microbatch, expert_accumulators_);
    Stage& stage = *rank_.stages()[position];
    if (mode_ == BackwardMode::split) {
      stage.run(Pass::input_gradient, context, slots, hook);
      stage.run(Pass::weight_gradient, context, slots, hook);
    } else {
      stage.run(Pass::backward, context, slots, hook);
    }
  }
}

StraightSums SequentialTrainer::accumulate(const kernels::ExecutionContext& context, std::int64_t microbatches, std::int64_t valid_targets,
                                           const FillBatch& fill, OperationHook* hook) {
  MILLRACE_CHECK(valid_targets > 0, ExitCode::data, "runtime.straight_loop", "{} valid targets in the step, expected 1 or more",
                 valid_targets);
  MILLRACE_CHECK(microbatches % accumulators_ == 0, ExitCode::config, "runtime.straight_loop",
                 "{} microbatches for {} accumulators, expected a multiple", microbatches, accumulators_);
  for (const Stage* stage : rank_.stages())
    for (const StageLoss& loss : stage->losses())
      MILLRACE_CHECK(loss.term.metric() || loss.term.denominator != Denominator::mtp_targets, ExitCode::config, "runtime.straight_loop",
                     "the model has modules that predict further tokens, whose targets this loop does not count; expected none");
  rank_.set_loss_scales({valid_targets, microbatches});
  StraightSums sums{loss_terms(rank_), 0, microbatches, observations(rank_)};
  for (std::int64_t m = 0; m < microbatches; ++m) {
    fill(m, rank_.batch(0));
    rank_.upload(context, 0);
    sums.targets += count_targets(rank_.batch(0));
    for (std::size_t position = 0; position < rank_.stages().size(); ++position) {
      rank_.stages()[position]->run(Pass::forward, context, slots_of(position), hook);
    }
    backward(context, m, hook);
    context.device_context().drain();
    add_losses(rank_, sums.losses);
    add_observations_of(rank_, sums.observed);
  }
  for (const Stage* stage : rank_.stages()) stage->shard().add_accumulator_sets(context);
  for (const Stage* stage : rank_.stages())
    for (const StoredParameter& tensor : stage->shard().tensors()) stage->shard().add_local_uses(context, tensor);
  return sums;
}

StraightStep SequentialTrainer::step(const kernels::ExecutionContext& context, std::int64_t microbatches, std::int64_t valid_targets,
                                     const FillBatch& fill, UpdateScalars scalars, double clip, OperationHook* hook, double bias_rate) {
  StraightStep step;
  step.sums = accumulate(context, microbatches, valid_targets, fill, hook);
  step.loss = step.sums.mean().total;
  step.norm = global_norm(square_sums(context, rank_.stages()));
  MILLRACE_CHECK(std::isfinite(step.loss) && std::isfinite(step.norm), ExitCode::numerics, "runtime.straight_loop",
                 "loss {}, gradient norm {}, expected finite numbers", step.loss, step.norm);
  scalars.gradient_scale = clip_scale(step.norm, clip);
  const BiasUpdate biases = bias_update(bias_rate, step.sums.observed, static_cast<int>(rank_.stages().size()), 1);
  for (const Stage* stage : rank_.stages()) {
    apply_optimizer(context, scalars, stage->shard());
    update_biases(context, biases, stage->shard());
  }
  return step;
}

StraightSums SequentialTrainer::evaluate(const kernels::ExecutionContext& context, std::int64_t microbatches, const FillBatch& fill,
                                         OperationHook* hook) {
  StraightSums sums{loss_terms(rank_), 0, microbatches};
  for (std::int64_t m = 0; m < microbatches; ++m) {
    fill(m, rank_.batch(0));
    rank_.upload(context, 0);
    sums.targets += count_targets(rank_.batch(0));
    for (std::size_t position = 0; position < rank_.stages().size(); ++position) {
      rank_.stages()[position]->run(Pass::evaluate, context, slots_of(position), hook);
    }
    context.device_context().drain();
    add_losses(rank_, sums.losses);
  }
  return sums;
}

kernels::Tensor SequentialTrainer::logits(const kernels::ExecutionContext& context, const FillBatch& fill, OperationHook* hook) {
  fill(0, rank_.batch(0));
  rank_.upload(context, 0);
  const auto& stages = rank_.stages();
  for (std::size_t position = 0; position + 1 < stages.size(); ++position)
    stages[position]->run(Pass::evaluate, context, slots_of(position), hook);
  const ExecutionSlots slots = slots_of(stages.size() - 1);
  stages.back()->run(Pass::logits, context, slots, hook);
  rank_.download_logits(context, stages.back()->stage());
  context.device_context().drain();
  auto logits = stages.back()->tensor(Pass::logits, stages.back()->programs(Pass::logits).logits, slots);
  logits.data = reinterpret_cast<std::byte*>(const_cast<float*>(rank_.logits(stages.back()->stage())));
  return logits;
}

}  // namespace millrace::runtime
