#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

inline constexpr std::size_t max_optimizer_states = 3;

/// A parameter as matrices, for optimizers that treat it as a linear map: `count` row-major matrices [rows, columns], one after another.
struct MatrixForm {
  std::int64_t count = 0;  // 0: the parameter is no matrix to the optimizer
  std::int64_t rows = 0, columns = 0;
  bool rows_are_outputs = false;  // a row holds the weights of one output, as in torch.nn.Linear; false: of one input

  [[nodiscard]] std::int64_t inputs() const noexcept { return rows_are_outputs ? columns : rows; }
  [[nodiscard]] std::int64_t outputs() const noexcept { return rows_are_outputs ? rows : columns; }
  bool operator==(const MatrixForm&) const = default;
};

/// One parameter with its gradient and optimizer states, as an optimizer's kernel updates them. All have the same shape and are f32, but
/// for first moments, which may be bf16: they are rounded when they are stored, after the update has used them.
struct OptimizerTensors {
  Tensor parameter;
  Tensor gradient;                                  // set to zero by the update
  Tensor copy;                                      // bf16, gets the rounded parameter; empty if programs read the parameter itself
  std::array<Tensor, max_optimizer_states> states;  // in the order of Optimizer::states(); unused ones are empty
  bool decays = true;                               // false: no weight decay for this parameter
  MatrixForm matrices = {};
};

/// Throws Error(internal) unless the tensors have one shape and the dtypes above. `states` names the states that the kernel expects;
/// `bf16_moment`: the first of them may be bf16.
void check_optimizer_tensors(const char* component, const OptimizerTensors& tensors, std::initializer_list<const char*> states,
                             bool bf16_moment = false);

}  // namespace millrace::kernels
