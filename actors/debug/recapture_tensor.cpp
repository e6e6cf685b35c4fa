#include "actors/debug/recapture_tensor.hpp"

#include <string_view>

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
  explicit Watcher(const runtime::RecordedHash& recorded) : recorded_(recorded), sought_(recorded.place.tensor) {}

  void after(const Call& call) override {
    if (!watching || copy) return;
    parts_.note(call, action);
    if (call.operation.name != recorded_.operation) return;
    const bool forward = call.kind == runtime::ProgramKind::forward;
    if (forward != (recorded_.place.moment == runtime::TensorMoment::forward)) return;
    for (std::size_t output = 0; output < call.outputs.size(); ++output) {
      if (call.programs.value(call.operation.outputs[output]).name != sought_.tensor) continue;
      for (const RecordedPart& part : parts_.parts_of(call, output, action))
        if (part.expert == sought_.expert && part.microbatch == recorded_.place.microbatch)
          copy = copy_of(part_of(call.outputs[output], part));
    }
  }

  bool watching = false;  // whether the current action is of the right step and microbatch
  runtime::Action action{runtime::no_stage, runtime::ActionKind::forward, runtime::no_microbatch};  // the current one
  std::optional<RecapturedTensor> copy;

 private:
  const runtime::RecordedHash& recorded_;
  Sought sought_;
  RecordedParts parts_;
};

std::optional<RecapturedTensor> weight_of(const Stepper& stepper, const std::string& name) {
  const Sought sought(name);
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
  Watcher watcher(recorded);
  stepper.set_hook(&watcher);
  while (!stepper.ended() && stepper.step() < step && !watcher.copy) {
    const bool there = stepper.step() + 1 == step;
    if (there && place.moment == runtime::TensorMoment::weight) return weight_of(stepper, place.tensor);
    const auto rank = stepper.next_rank();
    if (rank == runtime::no_rank) break;
    watcher.action = stepper.next(rank)->action;
    watcher.watching = there && watcher.action.microbatch.value == place.microbatch;
    stepper.run(rank);
  }
  return std::move(watcher.copy);
}

}  // namespace millrace::actors
