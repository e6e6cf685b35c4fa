#include "kernels/optimizer_tensors.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void check_optimizer_tensors(const char* component, const OptimizerTensors& tensors, std::initializer_list<const char*> states,
                             bool bf16_moment) {
  const Shape& shape = tensors.parameter.shape;
  check_operand(component, "parameter", tensors.parameter, shape, {DType::f32});
  check_operand(component, "gradient", tensors.gradient, shape, {DType::f32});
  if (tensors.copy) check_operand(component, "copy", tensors.copy, shape, {DType::bf16});
  std::size_t index = 0;
  for (const char* name : states) {
    const Tensor& state = tensors.states.at(index);
    if (bf16_moment && index == 0)
      check_operand(component, name, state, shape, {DType::f32, DType::bf16});
    else
      check_operand(component, name, state, shape, {DType::f32});
    ++index;
  }
}

}  // namespace millrace::kernels
