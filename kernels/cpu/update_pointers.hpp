#pragma once

#include "kernels/base/dtype.hpp"
#include "kernels/optimizer_tensors.hpp"

namespace millrace::kernels::cpu {

/// Pointers to the data of one tensor's update. `States` is the number of optimizer states that the kernel uses.
template <int States>
struct UpdatePointers {
  float* parameter;
  float* gradient;
  BFloat16* copy;  // or null
  float* states[States > 0 ? States : 1];
};

template <int States>
[[nodiscard]] UpdatePointers<States> update_pointers(const OptimizerTensors& tensors) {
  UpdatePointers<States> at{
      tensors.parameter.as<float>(), tensors.gradient.as<float>(), tensors.copy ? tensors.copy.as<BFloat16>() : nullptr, {}};
  for (int i = 0; i < States; ++i) at.states[i] = tensors.states[static_cast<std::size_t>(i)].as<float>();
  return at;
}

inline constexpr std::int64_t update_grain = 4096;  // elements; waking a thread for fewer is not worthwhile

}  // namespace millrace::kernels::cpu
