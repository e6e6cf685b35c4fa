#include "kernels/muon.hpp"

#include "kernels/adamw.hpp"
#include "kernels/matmul.hpp"
#include "kernels/square_sum.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::runtime {
namespace {

/// Muon for matrices, AdamW for the other parameters. With train.numerics = maxtext it is optax.contrib.muon, whose other optimizer is
/// AdamW with Nesterov's momentum (NAdamW); else torch.optim.Muon and torch.optim.AdamW.
class Muon final : public Optimizer {
 public:
  explicit Muon(const TrainConfig& train)
      : matrices_{.form = train.numerics == "maxtext" ? kernels::MuonForm::optax : kernels::MuonForm::torch,
                  .beta = train.muon_beta,
                  .epsilon = train.epsilon,
                  .consistent_rms = train.muon_consistent_rms,
                  .weight_decay = train.muon_weight_decay},
        others_{.beta1 = train.beta1,
                .beta2 = train.beta2,
                .epsilon = train.epsilon,
                .weight_decay = train.weight_decay,
                .nesterov = train.numerics == "maxtext"} {
    const std::string others = others_.nesterov ? "muon.nadamw" : "muon.adamw";
    states_ = {{"muon.momentum", first_moment_dtype(train)}, {others + ".m", first_moment_dtype(train)}, {others + ".v"}};
  }

  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] bool keeps(std::size_t state, const kernels::MatrixForm& matrices) const override {
    return (state == 0) == (matrices.count > 0);
  }
  [[nodiscard]] bool updates_matrices() const override { return true; }
  [[nodiscard]] std::size_t scratch_bytes(const kernels::MatrixForm& matrices, const kernels::Processor& processor) const override {
    return matrices.count > 0 ? kernels::muon_scratch_bytes(matrices, processor) : 0;
  }
  [[nodiscard]] KernelRows kernel_rows() const override {
    using namespace kernels::table;
    return {&muon_momentum, &square_sums, &muon_normalize, &matmul, &muon_polynomial, &muon_step, &adamw};
  }
  void update(const kernels::ExecutionContext& context, const UpdateScalars& step, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch scratch) const override {
    kernels::MuonScalars matrices = matrices_;
    kernels::AdamwScalars others = others_;
    matrices.learning_rate = others.learning_rate = step.learning_rate;
    matrices.gradient_scale = others.gradient_scale = step.gradient_scale;
    matrices.update = others.update = step.update;
    matrices.weight_decay = step.weight_decay.value_or(matrices_.weight_decay);
    others.weight_decay = step.weight_decay.value_or(others_.weight_decay);
    // Neighbours of one kind share a call.
    while (!tensors.empty()) {
      const bool are_matrices = tensors.front().matrices.count > 0;
      std::size_t count = 1;
      while (count < tensors.size() && (tensors[count].matrices.count > 0) == are_matrices) ++count;
      if (are_matrices)
        kernels::muon(context, matrices, tensors.first(count), scratch);
      else
        kernels::adamw(context, others, tensors.first(count));
      tensors = tensors.subspan(count);
    }
  }

 private:
  kernels::MuonScalars matrices_;
  kernels::AdamwScalars others_;
  std::vector<OptimizerState> states_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_muon(const TrainConfig& train) { return std::make_shared<Muon>(train); }

}  // namespace millrace::runtime
