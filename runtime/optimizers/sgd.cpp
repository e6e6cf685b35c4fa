#include "kernels/sgd.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::runtime {
namespace {

/// Stochastic gradient descent as in torch.optim.SGD. MaxText's sgd is the case of momentum 0 without decay, which keeps no state.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const TrainConfig& train)
      : scalars_{.momentum = train.momentum, .nesterov = train.nesterov, .weight_decay = train.weight_decay} {
    if (train.momentum > 0) states_.push_back({"sgd.momentum"});
  }

  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] KernelRows kernel_rows() const override { return {&kernels::table::sgd}; }
  void update(const kernels::ExecutionContext& context, const UpdateScalars& step, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch) const override {
    kernels::SgdScalars scalars = scalars_;
    scalars.learning_rate = step.learning_rate;
    scalars.weight_decay = step.weight_decay.value_or(scalars_.weight_decay);
    scalars.gradient_scale = step.gradient_scale;
    kernels::sgd(context, scalars, tensors);
  }

 private:
  kernels::SgdScalars scalars_;
  std::vector<OptimizerState> states_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_sgd(const TrainConfig& train) { return std::make_shared<Sgd>(train); }

}  // namespace millrace::runtime
