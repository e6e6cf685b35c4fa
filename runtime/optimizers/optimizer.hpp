#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/optimizer_tensors.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// One state that an optimizer keeps for every parameter: fp32, in the parameter's shape, zero before the first update.
struct OptimizerState {
  std::string name;  // "adamw.m": unique over all optimizers, since states of one mean nothing to another

  /// What checkpoints and the debugger call the state of a parameter: "adamw.m/model.norm.weight".
  [[nodiscard]] std::string tensor_name(const std::string& parameter) const { return name + "/" + parameter; }
};

/// The scalar arguments of one update; the same on every rank.
struct UpdateScalars {
  double learning_rate = 0;
  float gradient_scale = 1;  // from clipping: the kernel multiplies the gradient with it
  std::int64_t update = 1;   // counts from 1
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

  /// At most kernels::max_optimizer_states, in the order of OptimizerTensors::states.
  [[nodiscard]] virtual const std::vector<OptimizerState>& states() const = 0;
  /// Updates the tensors, writes their bf16 copies and zeroes their gradients. Thread: the rank's compute worker. Each element is
  /// updated independently, so the result depends neither on threads nor on which tensors share a call.
  virtual void update(const kernels::ExecutionContext& context, const UpdateScalars& scalars,
                      std::span<const kernels::OptimizerTensors> tensors) const = 0;
};

/// The optimizer that `train.optimizer` names, with its scalars from [train]. Throws Error(config) for a name that is not in the table,
/// with the nearest one.
[[nodiscard]] std::shared_ptr<const Optimizer> make_optimizer(const TrainConfig& train);

}  // namespace millrace::runtime
