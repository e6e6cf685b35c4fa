#include "kernels/square_sum.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/square_sum.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/square_sum.hpp"

namespace millrace::kernels {

void square_sum(const ExecutionContext& context, const Tensor& x, const Tensor& sum) { square_sums(context, {&x, 1}, sum); }

void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums) {
  constexpr const char* who = "kernels.square_sums";
  for (const Tensor& x : tensors) check_operand(who, "x", x, x.shape, {DType::f32});
  check_operand(who, "sums", sums, {static_cast<std::int64_t>(tensors.size())}, {DType::f64});
  if (context.on_cuda()) return cuda::square_sums(context, tensors, sums);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    sums.as<double>()[i] =
        context.implementation() == Implementation::reference ? reference::square_sum(tensors[i]) : cpu::square_sum(context, tensors[i]);
}

}  // namespace millrace::kernels
