#include "runtime/engine/rank_compute.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

/// Records how the operations of `programs` read the parameters, by name and use.
void note_forms(const ProgramSet& programs, const std::map<std::pair<std::string_view, int>, StageParameter*>& parameters) {
  for (const auto& program : programs.programs)
    for (const Operation& operation : program)
      for (const ValueId input : operation.inputs) {
        const Value& value = programs.value(input);
        if (value.role != Role::parameter) continue;
        const auto found = parameters.find({value.name, value.use});
        if (found == parameters.end()) continue;
        StageParameter& parameter = *found->second;
        parameter.in_f32 = value.type.dtype == kernels::DType::f32;
        if (value.form == WeightForm::plain)
          parameter.plain = true;
        else
          parameter.packed[value.form == WeightForm::packed_turned ? 1 : 0] = true;
      }
}

RankShards shards_of(const std::vector<RankStage>& stages, const RankOptions& options) {
  std::vector<StageId> ids;
  std::vector<StageParameter> all;
  for (const RankStage& stage : stages) {
    ids.push_back(stage.stage);
    auto own = stage.parameters;
    std::map<std::pair<std::string_view, int>, StageParameter*> by_use;
    for (StageParameter& parameter : own) {
      parameter.plain = false;
      by_use[{parameter.name, parameter.use}] = &parameter;
    }
    note_forms(stage.training, by_use);
    if (stage.logits) note_forms(*stage.logits, by_use);
    std::ranges::move(own, std::back_inserter(all));
  }
  return lay_out_shards(ids, all, options.compute, options.optimizer.get(), options.division);
}

/// The scratch that the optimizer needs for a tensor of the shard.
std::size_t optimizer_scratch(const ShardLayout& shard, const RankOptions& options) {
  std::size_t bytes = 0;
  if (!options.training || options.optimizer == nullptr) return bytes;
  for (const StoredParameter& tensor : shard.tensors)
    if (tensor.trained) bytes = std::max(bytes, options.optimizer->scratch_bytes(tensor.matrices, options.processor()));
  return bytes;
}

/// The number of tokens of a microbatch; 0 on a rank whose programs take none.
std::size_t tokens_in(const std::vector<Stage*>& stages) {
  for (const Stage* stage : stages)
    if (stage->plan().region_bytes[static_cast<std::size_t>(Region::batch)] > 0) return static_cast<std::size_t>(stage->programs().tokens);
  return 0;
}

}  // namespace

RankCompute::RankCompute(std::vector<RankStage> stages, const RankOptions& options) {
  if (options.training && options.optimizer != nullptr)
    require_kernels(options.optimizer->kernel_rows(), options.device, "runtime.rank_compute", "the optimizer's update");
  RankShards shards = shards_of(stages, options);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    ShardLayout& shard = shards.stages[i];
    shard.copies = options.copies;
    shard.expert_copies = options.expert_copies;
    shard.leaves = options.leaves > 0;
    note_completion(shard, stages[i].training);
  }
  if (options.training && !options.replicas.empty())
    reduction_ = make_reduction({.shards = shards.stages,
                                 .replicas = options.replicas,
                                 .sets = options.accumulators,
                                 .expert_sets = options.expert_accumulators,
                                 .copies = options.copies,
                                 .expert_copies = options.expert_copies,
                                 .window = options.window,
                                 .backward = options.mode == BackwardMode::split ? ProgramKind::weight_gradient : ProgramKind::backward});
  RankMemoryRequest demand{.accumulators = options.accumulators,
                           .expert_accumulators = options.expert_accumulators,
                           .training = options.training,
                           .staging = options.staging,
                           .batches = options.batches,
                           .states_on_host = options.states_on_host,
                           .on_device = !kernels::device_type(options.device).facts().host_readable,
                           .shared_copy = shards.shared_copy,
                           .gathered = shards.slots,
                           .stages = {},
                           .rings = options.rings,
                           .workspaces = options.workspaces,
                           .leaves = options.leaves,
                           .arrivals = reduction_.arrivals()};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    RankStage& stage = stages[i];
    owned_.push_back(std::make_unique<Stage>(std::move(shards.stages[i]), std::move(stage.training), std::move(stage.logits), options.mode,
                                             options.processor()));
    stages_.push_back(owned_.back().get());
    demand.stages.push_back(stages_.back()->demand(stage.slots));
    std::size_t& workspace = demand.stages.back().workspace;
    workspace = std::max(workspace, optimizer_scratch(stages_.back()->shard_layout(), options));
  }
  plan_ = std::make_unique<RankMemoryPlan>(demand);
  if (options.plan_only) return;
  memory_ = std::make_unique<RankMemory>(*plan_, options.device);
  std::size_t scalars = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    stages_[i]->attach(*memory_, scalars, options.training ? options.optimizer : nullptr);
    scalars += demand.stages[i].scalar;
  }
  batch_tokens_ = tokens_in(stages_);
}

WeightSlots RankCompute::weight_slots() const {
  std::vector<WeightSlots::Of> slots;
  for (const Stage* each : stages_)
    if (each->shard_layout().slot >= 0) slots.push_back({each->stage(), each->shard_layout().slot});
  return WeightSlots(std::move(slots));
}

Stage& RankCompute::stage(StageId stage) const {
  for (Stage* each : stages_) {
    if (each->stage() == stage) return *each;
  }
  fail(ExitCode::internal, "runtime.rank_compute", "stage {} is not on this rank", stage);
}

const StageShard& RankCompute::shard_with(std::string_view parameter) const {
  for (const Stage* each : stages_) {
    if (each->shard_layout().find(parameter) != nullptr) return each->shard();
  }
  fail(ExitCode::internal, "runtime.rank_compute", "no parameter \"{}\" on this rank", parameter);
}

std::unique_ptr<Stage> RankCompute::hand_over(StageId stage) {
  const Stage* wanted = &this->stage(stage);
  for (auto& owned : owned_) {
    if (owned.get() == wanted) return std::move(owned);
  }
  fail(ExitCode::internal, "runtime.rank_compute", "stage {} was handed over already", stage);
}

void RankCompute::take_back(std::unique_ptr<Stage> stage) {
  const auto place = std::find(stages_.begin(), stages_.end(), stage.get());
  MILLRACE_CHECK(place != stages_.end(), ExitCode::internal, "runtime.rank_compute", "stage {} is not of this rank", stage->stage());
  owned_[static_cast<std::size_t>(place - stages_.begin())] = std::move(stage);
}

BatchView RankCompute::batch(int index) const {
  if (batch_tokens_ == 0) return {};
  std::byte* base = memory_->host_slot(MemoryKind::batch, no_stage, index);
  BatchView batch;
  for (const BatchField& field : batch_fields) {
    const std::size_t offset = batch_offset(field.name, static_cast<std::int64_t>(batch_tokens_));
    batch.*field.array = {reinterpret_cast<std::int32_t*>(base + offset), batch_tokens_};
  }
  return batch;
}

void RankCompute::set_loss_scales(const StepCounts& counts) const {
  for (const Stage* stage : stages_) stage->set_loss_scales(counts);
}

void RankCompute::upload(const kernels::ExecutionContext& context, int batch) const {
  auto& device = context.device_context();
  memory_->copy_to_device(device, kernels::StreamKind::copy_in, MemoryKind::batch, no_stage, batch);
  memory_->copy_to_device(device, kernels::StreamKind::copy_in, MemoryKind::scalar, no_stage);
  device.wait(kernels::StreamKind::compute, kernels::StreamKind::copy_in);
}

void RankCompute::download_logits(const kernels::ExecutionContext& context, StageId stage) const {
  memory_->copy_to_host(context.device_context(), kernels::StreamKind::compute, MemoryKind::logits, stage);
}

const float* RankCompute::logits(StageId stage) const {
  return reinterpret_cast<const float*>(memory_->host_slot(MemoryKind::logits, stage));
}

}  // namespace millrace::runtime
