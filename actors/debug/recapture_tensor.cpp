#include "actors/debug/recapture_tensor.hpp"

#include "actors/jobs/stepper.hpp"

namespace millrace::actors {
namespace {

RecapturedTensor copy_of(const kernels::Tensor& tensor) {
  RecapturedTensor copy{tensor, {tensor.data, tensor.data + tensor.bytes()}};
  copy.tensor.data = copy.bytes.data();
  return copy;
}

/// Copies the operation's result when the operation runs.
class Watcher final : public runtime::OperationHook {
 public:
  explicit Watcher(const runtime::RecordedHash& recorded) : recorded_(recorded) {}

  void after(const Call& call) override {
    if (!watching || copy || call.operation.name != recorded_.operation) return;
    const bool forward = call.kind == runtime::ProgramKind::forward;
    if (forward != (recorded_.place.moment == runtime::TensorMoment::forward)) return;
    for (std::size_t output = 0; output < call.outputs.size(); ++output)
      if (call.programs.value(call.operation.outputs[output]).name == recorded_.place.tensor) copy = copy_of(call.outputs[output]);
  }

  bool watching = false;  // whether the current action is of the right step and microbatch
  std::optional<RecapturedTensor> copy;

 private:
  const runtime::RecordedHash& recorded_;
};

std::optional<RecapturedTensor> weight_of(const Stepper& stepper, const std::string& name) {
  for (int index = 0; index < stepper.plan().ranks(); ++index) {
    for (const auto* stage : stepper.rank(runtime::RankId(index)).compute().stages()) {
      const auto* tensor = stage->shard().layout().find(name);
      if (tensor != nullptr && tensor->is_owner()) return copy_of(stage->shard().master(*tensor));
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
    watcher.watching = there && stepper.next(rank)->action.microbatch.value == place.microbatch;
    stepper.run(rank);
  }
  return std::move(watcher.copy);
}

}  // namespace millrace::actors
