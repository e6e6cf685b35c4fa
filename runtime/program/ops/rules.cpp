#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime::rules {

void require(bool fits, std::string_view operation, std::span<const ValueType> inputs, std::string_view wanted) {
  if (fits) return;
  std::string operands;
  for (const auto& type : inputs) {
    if (!operands.empty()) operands += ", ";
    operands += fmt::format("{} {}", kernels::to_string(type.dtype), kernels::to_string(type.shape));
  }
  fail(ExitCode::internal, "runtime.program", "{}({}), expected {}", operation, operands, wanted);
}

bool is_matrix(const ValueType& type) {
  return type.shape.rank() == 2 && (type.dtype == kernels::DType::f32 || type.dtype == kernels::DType::bf16);
}

bool is_vector(const ValueType& type, const kernels::Dimension& dimension) {
  return type.dtype == kernels::DType::f32 && type.shape.rank() == 1 && type.shape.dimension(0) == dimension;
}

double bytes(std::span<const ValueType> types) {
  double sum = 0;
  for (const auto& type : types) sum += elements(type) * static_cast<double>(kernels::size_of(type.dtype));
  return sum;
}

double traffic(std::span<const ValueType> inputs, std::span<const ValueType> outputs, bool accumulates) {
  return bytes(inputs) + bytes(outputs) * (accumulates ? 2 : 1);
}

kernels::Shape heads(const kernels::Shape& shape, std::int64_t head_dim) { return {shape.dimension(0), shape[1] / head_dim, head_dim}; }

kernels::Tensor heads(kernels::Tensor tensor, std::int64_t head_dim) {
  tensor.shape = heads(tensor.shape, head_dim);
  return tensor;
}

}  // namespace millrace::runtime::rules
