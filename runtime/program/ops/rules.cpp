#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime::rules {

void require(bool fits, std::string_view operation, std::span<const ValueType> inputs, std::string_view expected) {
  if (fits) return;
  std::string operands;
  for (const auto& type : inputs) {
    if (!operands.empty()) operands += ", ";
    operands += fmt::format("{} {}", kernels::to_string(type.dtype), kernels::to_string(type.shape));
  }
  fail(ExitCode::internal, "runtime.program", "{}({}), expected {}", operation, operands, expected);
}

bool is_matrix(const ValueType& type) {
  return type.shape.rank() == 2 && (type.dtype == kernels::DType::f32 || type.dtype == kernels::DType::bf16);
}

bool is_vector(const ValueType& type, const kernels::Dimension& dimension) {
  return type.dtype == kernels::DType::f32 && type.shape.rank() == 1 && type.shape.dimension(0) == dimension;
}

bool is_indices(const ValueType& type, const kernels::Dimension& dimension) {
  return type.dtype == kernels::DType::i32 && type.shape.rank() == 1 && type.shape.dimension(0) == dimension;
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

ValueType scales_of(const ValueType& x, std::int64_t width) { return {kernels::DType::f32, {x.shape.dimension(0), x.shape[1] / width}}; }

kernels::Tensor vectors(kernels::Tensor tensor, std::int64_t width) {
  tensor.shape = {tensor.shape[0] * (tensor.shape[1] / width), width};
  return tensor;
}

kernels::Tensor numbers(kernels::Tensor tensor) {
  tensor.shape = {tensor.shape[0] * tensor.shape[1]};
  return tensor;
}

bool wants_any(const GradientBuilder& builder, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (builder.wants(i)) return true;
  return false;
}

void add_gradients(GradientBuilder& builder, std::span<const ValueId> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
}

void add_own_gradient(GradientBuilder& builder, const OperationRule& rule) {
  if (!builder.wants(0)) return;
  std::vector<ValueId> inputs{builder.output_gradient(0)};
  for (std::size_t i = 1; i < builder.forward().inputs.size(); ++i) inputs.push_back(builder.input(i));
  builder.add_gradient(0, builder.append(rule, std::move(inputs), builder.forward().attributes, "dx")[0]);
}

}  // namespace millrace::runtime::rules
