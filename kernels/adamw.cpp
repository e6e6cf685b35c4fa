#include "kernels/adamw.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/adamw.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/adamw.hpp"

namespace millrace::kernels {

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v,
           const Tensor& gradient, const Tensor& copy) {
  const AdamwTensors one{p, m, v, gradient, copy, true};
  adamw(context, scalars, {&one, 1});
}

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const AdamwTensors> tensors) {
  constexpr const char* who = "kernels.adamw";
  MILLRACE_CHECK(scalars.update >= 1, ExitCode::internal, who, "update {}, expected 1 or more", scalars.update);
  for (const auto& [p, m, v, gradient, copy, decays] : tensors) {
    check_operand(who, "p", p, p.shape, {DType::f32});
    check_operand(who, "m", m, p.shape, {DType::f32});
    check_operand(who, "v", v, p.shape, {DType::f32});
    check_operand(who, "gradient", gradient, p.shape, {DType::f32});
    if (copy) check_operand(who, "copy", copy, p.shape, {DType::bf16});
  }
  if (context.on_cuda()) return cuda::adamw(context, scalars, tensors);
  for (const auto& [p, m, v, gradient, copy, decays] : tensors) {
    AdamwScalars own = scalars;
    if (!decays) own.weight_decay = 0;
    if (context.implementation() == Implementation::reference)
      reference::adamw(own, p, m, v, gradient, copy);
    else
      cpu::adamw(context, own, p, m, v, gradient, copy);
  }
}

}  // namespace millrace::kernels
