#include "tools/commands/rank_preview.hpp"

#include <algorithm>

#include "actors/log_line.hpp"
#include "actors/rank.hpp"
#include "kernels/base/check.hpp"
#include "runtime/engine/rank_plan.hpp"

namespace millrace::tools {
namespace {

constexpr int batches_ahead = 2;  // of the next step, as actors::Rank loads them

std::vector<runtime::StageParameter> stage_parameters(const actors::PipelinePlan& plan, runtime::StageId stage) {
  std::vector<runtime::StageParameter> list;
  for (const auto& spec : layers::parameters(plan.model, plan.layout[stage.index()]))
    list.push_back({spec.name, spec.shape, stage, spec.use, spec.order, spec.shape.rank() >= 2});
  return list;
}

/// Microbatches whose tokens the rank holds at a time: of a training step and, apart from it, of an evaluation.
int batches_of(const actors::PipelinePlan& plan, runtime::RankId rank, std::int64_t evaluation_microbatches) {
  const auto& slots = plan.ledger.stages;
  const int training = actors::batches_in_flight(runtime::make_rank_plan(plan.schedule, rank, slots)) + batches_ahead;
  if (evaluation_microbatches == 0) return training + 1;
  const auto forwards = runtime::forward_only(plan.schedule.placement, static_cast<int>(evaluation_microbatches));
  return training + actors::batches_in_flight(runtime::make_rank_plan(forwards, rank, slots)) + batches_ahead;
}

}  // namespace

RankPreview::RankPreview(const actors::PipelinePlan& plan, runtime::RankId rank, const PreviewOptions& options) : rank_(rank) {
  const auto& own = plan.schedule.placement.stages_of(rank);
  std::vector<runtime::StageParameter> parameters;
  for (const auto stage : own) {
    const auto list = stage_parameters(plan, stage);
    parameters.insert(parameters.end(), list.begin(), list.end());
  }
  layout_ = std::make_unique<runtime::ParameterLayout>(parameters, plan.compute);
  places_ = layout_->places();
  runtime::RankDemand demand{plan.accumulators, true, options.staging, batches_of(plan, rank, options.evaluation_microbatches), {}};
  const auto mode = plan.split_backward ? runtime::BackwardMode::split : runtime::BackwardMode::fused;
  for (const auto stage : own) {
    const bool last = stage.value == plan.stages() - 1;
    std::optional<runtime::ProgramSet> logits;
    if (last && options.logits) logits = plan.programs(stage, layers::Output::logits);
    stages_.push_back(
        std::make_unique<runtime::StageRunner>(stage, plan.programs(stage), std::move(logits), mode, places_, options.threads));
    const auto& ledger = plan.ledger.stages.at(stage.index());
    const auto results = std::max<std::int64_t>(plan.schedule.microbatches, options.evaluation_microbatches);
    demand.stages.push_back(stages_.back()->demand(
        {ledger.stash_input, ledger.stash_weight, ledger.handoff, 0, 0, 0, 0, last ? static_cast<int>(results) : 0}));
  }
  memory_ = std::make_unique<runtime::RankMemoryPlan>(*layout_, demand);
  for (const auto& channel : plan.channels()) {
    if (channel.from_rank != rank.value && channel.to_rank != rank.value) continue;
    rings_.push_back({channel, kernels::align_up(cluster::ring_bytes(channel))});
    ring_bytes_ += rings_.back().bytes;
  }
}

const runtime::StageRunner& RankPreview::stage(runtime::StageId stage) const {
  for (const auto& runner : stages_)
    if (runner->stage() == stage) return *runner;
  fail(ExitCode::internal, "millrace inspect", "stage {} is not on rank {}", stage, rank_);
}

std::size_t RankPreview::parameters() const noexcept {
  std::size_t elements = 0;
  for (const auto& tensor : layout_->tensors()) elements += tensor.elements();
  return elements;
}

std::string RankPreview::print() const {
  std::string text = memory_->print();
  for (const auto& ring : rings_) {
    text += fmt::format("ring of channel {} (rank {} to {}): {} slots, {} bytes\n", ring.channel.id, ring.channel.from_rank,
                        ring.channel.to_rank, ring.channel.depth, ring.bytes);
  }
  return text + fmt::format("peak of rank {}: {} bytes ({})\n", rank_, peak_bytes(), actors::bytes_text(peak_bytes()));
}

}  // namespace millrace::tools
