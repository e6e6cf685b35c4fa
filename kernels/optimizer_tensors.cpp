#include "kernels/optimizer_tensors.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void check_optimizer_tensors(const char* who, const OptimizerTensors& tensors, std::initializer_list<const char*> states) {
  const Shape& shape = tensors.parameter.shape;
  check_operand(who, "parameter", tensors.parameter, shape, {DType::f32});
  check_operand(who, "gradient", tensors.gradient, shape, {DType::f32});
  if (tensors.copy) check_operand(who, "copy", tensors.copy, shape, {DType::bf16});
  std::size_t index = 0;
  for (const char* name : states) check_operand(who, name, tensors.states.at(index++), shape, {DType::f32});
}

}  // namespace millrace::kernels
