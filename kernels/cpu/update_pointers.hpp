#pragma once

#include "kernels/base/dtype.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels::cpu {

/// The length of arrays of states, which cannot be 0.
template <int States>
inline constexpr int state_places = States + (States == 0);

/// Pointers to the data of one tensor's update. `States` is the number of optimizer states that the kernel uses.
template <int States>
struct UpdatePointers {
  float* parameter;
  float* gradient;
  BFloat16* copy;  // or null
  float* states[state_places<States>];
  BFloat16* narrow;  // the first state if it is bf16, else null
};

template <int States>
[[nodiscard]] UpdatePointers<States> update_pointers(const OptimizerTensors& tensors) {
  UpdatePointers<States> at{
      tensors.parameter.as<float>(), tensors.gradient.as<float>(), tensors.copy ? tensors.copy.as<BFloat16>() : nullptr, {}, nullptr};
  for (int i = 0; i < States; ++i) at.states[i] = tensors.states[static_cast<std::size_t>(i)].as<float>();
  if (States > 0 && tensors.states[0].dtype == DType::bf16) at.narrow = tensors.states[0].as<BFloat16>();
  return at;
}

inline constexpr std::int64_t update_grain = 4096;  // elements; waking a thread for fewer is not worthwhile

}  // namespace millrace::kernels::cpu
