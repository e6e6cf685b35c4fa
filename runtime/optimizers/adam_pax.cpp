#include "kernels/adam_pax.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::runtime {
namespace {

/// Adam as Pax and MaxText's adam_pax compute it. In exact arithmetic its steps are those of AdamW, but its moments m and v are stored
/// corrected for their start at zero, so neither can resume from a checkpoint of the other.
class AdamPax final : public Optimizer {
 public:
  explicit AdamPax(const TrainConfig& train)
      : scalars_{.beta1 = train.beta1, .beta2 = train.beta2, .epsilon = train.epsilon, .weight_decay = train.weight_decay} {}

  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] KernelRows kernel_rows() const override { return {&kernels::table::adam_pax}; }
  void update(const kernels::ExecutionContext& context, const UpdateScalars& step, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch) const override {
    kernels::AdamPaxScalars scalars = scalars_;
    scalars.learning_rate = step.learning_rate;
    scalars.weight_decay = step.weight_decay.value_or(scalars_.weight_decay);
    scalars.gradient_scale = step.gradient_scale;
    scalars.update = step.update;
    kernels::adam_pax(context, scalars, tensors);
  }

 private:
  kernels::AdamPaxScalars scalars_;
  std::vector<OptimizerState> states_{{"adam_pax.m"}, {"adam_pax.v"}};
};

}  // namespace

std::shared_ptr<const Optimizer> make_adam_pax(const TrainConfig& train) { return std::make_shared<AdamPax>(train); }

}  // namespace millrace::runtime
