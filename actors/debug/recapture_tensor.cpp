#include "actors/debug/recapture_tensor.hpp"

#include <cstring>
#include <string_view>
#include <vector>

#include "actors/jobs/stepper.hpp"
#include "actors/rank/recorded_parts.hpp"
#include "runtime/program/expert_slices.hpp"

namespace millrace::actors {
namespace {

RecapturedTensor copy_of(const kernels::Tensor& tensor) {
  RecapturedTensor copy{tensor, {tensor.data, tensor.data + tensor.bytes()}};
  copy.tensor.data = copy.bytes.data();
  return copy;
}

/// What a recorded name says: a tensor, and one of its experts or -1.
struct Sought {
  std::string_view tensor;
  std::int64_t expert = -1;

  explicit Sought(std::string_view name) : tensor(name) {
    const auto named = runtime::named_expert(name);
    if (!named) return;
    tensor = named->tensor;
    expert = named->expert;
  }
};

/// A part of a tensor: some of its rows.
kernels::Tensor part_of(kernels::Tensor tensor, const RecordedPart& part) {
  if (part.bytes == tensor.bytes()) return tensor;
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  tensor.shape.dimension(0) = static_cast<std::int64_t>(part.bytes / (tensor.bytes() / rows));
  tensor.data += part.begin;
  return tensor;
}

/// Copies the operation's result when the operation runs.
class Watcher final : public runtime::OperationHook {
 public:
  Watcher(const PipelinePlan& plan, const runtime::RecordedHash& recorded)
      : plan_(plan), recorded_(recorded), sought_(recorded.place.tensor) {
    for (int index = 0; index < plan.ranks(); ++index)
      parts_.emplace_back(SourceMicrobatches{plan.expert_group(runtime::RankId(index)).group.member, plan.expert_groups()});
  }

  /// The next action, of the recorded step. An owner of experts computes the rows of all members of its group, whose microbatches are as
  /// many from the beginning as its own.
  void watch(runtime::RankId of_rank, const runtime::Action& next) {
    rank_ = of_rank;
    action_ = next;
    const int microbatch = next.microbatch.value, sought = recorded_.place.microbatch, groups = plan_.expert_groups();
    watching_ = microbatch / plan_.replicas() == sought / plan_.replicas() && microbatch % groups == sought % groups;
  }
  void look_away() { watching_ = false; }

  void after(const Call& call) override {
    if (!watching_ || copy) return;
    RecordedParts& own = parts_[rank_.index()];
    own.note(call, action_);
    if (call.operation.name != recorded_.operation) return;
    const bool forward = call.kind == runtime::ProgramKind::forward;
    if (forward != (recorded_.place.moment == runtime::TensorMoment::forward)) return;
    for (std::size_t output = 0; output < call.outputs.size(); ++output) {
      if (call.programs.value(call.operation.outputs[output]).name != sought_.tensor) continue;
      for (const RecordedPart& part : own.parts_of(call, output, action_))
        if (part.expert == sought_.expert && part.microbatch == recorded_.place.microbatch)
          copy = copy_of(part_of(call.outputs[output], part));
    }
  }

  std::optional<RecapturedTensor> copy;

 private:
  const PipelinePlan& plan_;
  const runtime::RecordedHash& recorded_;
  Sought sought_;
  std::vector<RecordedParts> parts_;  // by rank
  bool watching_ = false;             // whether the current action is of the right step and may have the microbatch's rows
  runtime::RankId rank_;              // the current one
  runtime::Action action_{runtime::no_stage, runtime::ActionKind::forward, runtime::no_microbatch};
};

/// The tensor, put together from what the ranks have of its masters. Nothing if no rank has any.
std::optional<RecapturedTensor> join_masters(const Stepper& stepper, const Sought& sought) {
  RecapturedTensor joined;
  std::size_t per_expert = 0;  // bytes
  for (int index = 0; index < stepper.plan().ranks(); ++index) {
    for (const auto* stage : stepper.rank(runtime::RankId(index)).compute().stages()) {
      const auto* tensor = stage->shard().layout().find(sought.tensor);
      if (tensor == nullptr || !tensor->masters_divided || tensor->reported().empty()) continue;
      const kernels::Shape whole = runtime::whole_shape(tensor->shape, tensor->experts);
      const kernels::Tensor own = stage->shard().owned_master(*tensor);
      if (joined.bytes.empty()) joined = {{nullptr, own.dtype, whole}, std::vector<std::byte>(whole.elements() * sizeof(float))};
      std::memcpy(joined.bytes.data() + tensor->in_model(tensor->owned).first * sizeof(float), own.data, own.bytes());
      if (tensor->experts.present()) per_expert = tensor->bytes() / static_cast<std::size_t>(tensor->parts());
    }
  }
  if (joined.bytes.empty()) return std::nullopt;
  joined.tensor.data = joined.bytes.data();
  if (sought.expert < 0) return joined;
  const RecordedPart part{sought.expert, -1, static_cast<std::size_t>(sought.expert) * per_expert, per_expert};
  return copy_of(part_of(joined.tensor, part));
}

std::optional<RecapturedTensor> weight_of(const Stepper& stepper, const std::string& name) {
  const Sought sought(name);
  if (auto joined = join_masters(stepper, sought)) return joined;
  for (int index = 0; index < stepper.plan().ranks(); ++index) {
    for (const auto* stage : stepper.rank(runtime::RankId(index)).compute().stages()) {
      const auto* tensor = stage->shard().layout().find(sought.tensor);
      if (tensor == nullptr || !tensor->is_owner()) continue;
      for (const RecordedPart& part : parts_of(*tensor))
        if (part.expert == sought.expert) return copy_of(part_of(stage->shard().master(*tensor), part));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<RecapturedTensor> recapture_tensor(const SteppedRun& run, std::int64_t step, const runtime::RecordedHash& recorded) {
  Stepper stepper(run.setup());
  const auto& place = recorded.place;
  Watcher watcher(stepper.plan(), recorded);
  stepper.set_hook(&watcher);
  while (!stepper.ended() && stepper.step() < step && !watcher.copy) {
    const bool there = stepper.step() + 1 == step;
    if (there && place.moment == runtime::TensorMoment::weight) return weight_of(stepper, place.tensor);
    const auto rank = stepper.next_rank();
    if (rank == runtime::no_rank) break;
    if (there)
      watcher.watch(rank, stepper.next(rank)->action);
    else
      watcher.look_away();
    stepper.run(rank);
  }
  return std::move(watcher.copy);
}

}  // namespace millrace::actors
