#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/device.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/optimizer_tensors.hpp"
#include "runtime/program/kernel_rows.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// One state that an optimizer keeps for parameters, in the parameter's shape.
struct OptimizerState {
  std::string name;                            // "adamw.m": unique over all optimizers, since states of one mean nothing to another
  kernels::DType dtype = kernels::DType::f32;  // or bf16
  bool begins_as_parameter = false;            // before the first update it is the parameter, an f32 state; false: zero

  /// What checkpoints and the debugger call the state of a parameter: "adamw.m/model.norm.weight".
  [[nodiscard]] std::string tensor_name(const std::string& parameter) const { return name + "/" + parameter; }
};

/// The scalar arguments of one update; the same on every rank.
struct UpdateScalars {
  double learning_rate = 0;
  float gradient_scale = 1;                           // from clipping: the kernel multiplies the gradient with it
  std::int64_t update = 1;                            // counts from 1
  bool skip = false;                                  // the gradient is zeroed, and nothing else is done
  std::optional<double> weight_decay = std::nullopt;  // in place of the optimizer's own
};

/// How the update of the parameters of a group differs from that of others (ParameterGroups).
struct GroupScalars {
  double rate = 1;                                    // multiplies the learning rate
  std::optional<double> weight_decay = std::nullopt;  // in place of the optimizer's own

  /// The step's scalars for such parameters.
  [[nodiscard]] UpdateScalars applied_to(UpdateScalars scalars) const noexcept {
    scalars.learning_rate *= rate;
    if (weight_decay) scalars.weight_decay = weight_decay;
    return scalars;
  }
  bool operator==(const GroupScalars&) const = default;
};

/// An optimizer: its states by name, and how a set of tensors is updated. Code that stores, copies, names, saves or restores states
/// iterates over `states()` and does not depend on the optimizer. Immutable; used by all ranks of a process. To add an optimizer,
/// add a file to this folder and a row to the table in optimizer_config.hpp.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  [[nodiscard]] virtual const std::vector<OptimizerState>& states() const = 0;
  /// Whether parameters with these matrices have the state with this index in states(). A parameter has at most
  /// kernels::max_optimizer_states of them; OptimizerTensors::states are those that it has, in the order of states().
  [[nodiscard]] virtual bool keeps([[maybe_unused]] std::size_t state, [[maybe_unused]] const kernels::MatrixForm& matrices) const {
    return true;
  }
  /// Whether it updates parameters that have matrices as matrices: replicas then divide them between matrices only. false: it updates each
  /// element by itself.
  [[nodiscard]] virtual bool updates_matrices() const { return false; }
  /// Bytes of scratch that the update of a parameter with these matrices needs.
  [[nodiscard]] virtual std::size_t scratch_bytes([[maybe_unused]] const kernels::MatrixForm& matrices,
                                                  [[maybe_unused]] const kernels::Processor& processor) const {
    return 0;
  }
  /// The kernels that update() calls. Planning a rank that trains fails if the device lacks one of them.
  [[nodiscard]] virtual KernelRows kernel_rows() const = 0;
  /// Updates the tensors, writes their bf16 copies and zeroes their gradients. `scratch` has at least the largest scratch_bytes of the
  /// tensors. Thread: the rank's compute worker. The result does not depend on which tensors share a call; of the number of threads only
  /// products of matrices depend, as in programs.
  virtual void update(const kernels::ExecutionContext& context, const UpdateScalars& scalars,
                      std::span<const kernels::OptimizerTensors> tensors, kernels::Scratch scratch) const = 0;
};

/// The dtype that train.first_moment names.
[[nodiscard]] inline kernels::DType first_moment_dtype(const TrainConfig& train) noexcept {
  return train.first_moment == "bf16" ? kernels::DType::bf16 : kernels::DType::f32;
}

/// The optimizer that `train.optimizer` names, with its scalars from [train], and a moving average of the parameters if one
/// is to be kept. Throws Error(config) for a name that is not in the table,
/// with the nearest one.
[[nodiscard]] std::shared_ptr<const Optimizer> make_optimizer(const TrainConfig& train);

}  // namespace millrace::runtime
