#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

inline constexpr std::size_t max_optimizer_states = 2;

/// One parameter with its gradient and optimizer states, as an optimizer's kernel updates them. All are f32 and have the same
/// shape.
struct OptimizerTensors {
  Tensor parameter;
  Tensor gradient;                                  // set to zero by the update
  Tensor copy;                                      // bf16, gets the rounded parameter; empty if programs read the parameter itself
  std::array<Tensor, max_optimizer_states> states;  // in the order of Optimizer::states(); unused ones are empty
  bool decays = true;                               // false: no weight decay for this parameter
};

/// Throws Error(internal) unless the tensors have one shape and the dtypes above. `states` names the states that the kernel expects.
void check_optimizer_tensors(const char* component, const OptimizerTensors& tensors, std::initializer_list<const char*> states);

}  // namespace millrace::kernels
