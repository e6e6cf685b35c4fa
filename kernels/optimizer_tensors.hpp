#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

inline constexpr std::size_t max_optimizer_states = 2;

/// What an optimizer's kernel updates: one parameter with its gradient and the optimizer's states, all f32 and of one shape.
struct OptimizerTensors {
  Tensor parameter;
  Tensor gradient;                                  // set to zero by the update
  Tensor copy;                                      // bf16, gets the rounded parameter; empty where programs read the parameter itself
  std::array<Tensor, max_optimizer_states> states;  // in the order of the optimizer's states; those that it does not have are empty
  bool decays = true;                               // false: weight decay counts as 0
};

/// Throws Error(internal) unless the tensors have one shape and the dtypes above. `states` names the states that the kernel expects.
void check_optimizer_tensors(const char* who, const OptimizerTensors& tensors, std::initializer_list<const char*> states);

}  // namespace millrace::kernels
