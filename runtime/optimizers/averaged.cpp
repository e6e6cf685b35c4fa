#include "runtime/optimizers/averaged.hpp"

#include <utility>

#include "kernels/average.hpp"

namespace millrace::runtime {
namespace {

class Averaged final : public Optimizer {
 public:
  Averaged(std::shared_ptr<const Optimizer> optimizer, double decay)
      : optimizer_(std::move(optimizer)), share_(static_cast<float>(1.0 - decay)), states_(optimizer_->states()) {
    states_.push_back({.name = average_name, .begins_as_parameter = true});
  }

  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] bool keeps(std::size_t state, const kernels::MatrixForm& matrices) const override {
    return state + 1 == states_.size() || optimizer_->keeps(state, matrices);
  }
  [[nodiscard]] bool updates_matrices() const override { return optimizer_->updates_matrices(); }
  [[nodiscard]] std::size_t scratch_bytes(const kernels::MatrixForm& matrices, const kernels::Processor& processor) const override {
    return optimizer_->scratch_bytes(matrices, processor);
  }
  [[nodiscard]] KernelRows kernel_rows() const override {
    KernelRows rows = optimizer_->kernel_rows();
    rows.push_back(&kernels::table::move_average);
    return rows;
  }
  void update(const kernels::ExecutionContext& context, const UpdateScalars& scalars, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch scratch) const override {
    optimizer_->update(context, scalars, tensors, scratch);
    for (const kernels::OptimizerTensors& each : tensors) {
      std::size_t place = 0;  // behind the states that the optimizer keeps
      for (std::size_t state = 0; state + 1 < states_.size(); ++state) place += optimizer_->keeps(state, each.matrices) ? 1 : 0;
      kernels::move_average(context, share_, each.parameter, each.states.at(place));
    }
  }

 private:
  std::shared_ptr<const Optimizer> optimizer_;
  float share_;
  std::vector<OptimizerState> states_;
};

}  // namespace

std::shared_ptr<const Optimizer> with_average(std::shared_ptr<const Optimizer> optimizer, double decay) {
  return std::make_shared<Averaged>(std::move(optimizer), decay);
}

}  // namespace millrace::runtime
