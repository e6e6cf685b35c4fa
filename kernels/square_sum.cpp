#include "kernels/square_sum.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void square_sum(const ExecutionContext& context, const Tensor& x, const Tensor& sum) { square_sums(context, {&x, 1}, sum); }

void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums) {
  constexpr const char* component = "kernels.square_sums";
  for (const Tensor& x : tensors) check_operand(component, "x", x, x.shape, {DType::f32});
  check_operand(component, "sums", sums, {static_cast<std::int64_t>(tensors.size())}, {DType::f64});
  table::square_sums(context, tensors, sums);
}

}  // namespace millrace::kernels
