#include "kernels/adamw.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::runtime {
namespace {

/// Adam with decoupled weight decay (Loshchilov & Hutter, arXiv 1711.05101): first and second moments m and v.
class Adamw final : public Optimizer {
 public:
  explicit Adamw(const TrainConfig& train)
      : scalars_{.beta1 = train.beta1, .beta2 = train.beta2, .epsilon = train.epsilon, .weight_decay = train.weight_decay},
        states_{{"adamw.m", first_moment_dtype(train)}, {"adamw.v"}} {}

  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] KernelRows kernel_rows() const override { return {&kernels::table::adamw}; }
  void update(const kernels::ExecutionContext& context, const UpdateScalars& step, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch) const override {
    kernels::AdamwScalars scalars = scalars_;
    scalars.learning_rate = step.learning_rate;
    scalars.weight_decay = step.weight_decay.value_or(scalars_.weight_decay);
    scalars.gradient_scale = step.gradient_scale;
    scalars.update = step.update;
    kernels::adamw(context, scalars, tensors);
  }

 private:
  kernels::AdamwScalars scalars_;
  std::vector<OptimizerState> states_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_adamw(const TrainConfig& train) { return std::make_shared<Adamw>(train); }

}  // namespace millrace::runtime
