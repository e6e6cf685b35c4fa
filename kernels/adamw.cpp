#include "kernels/adamw.hpp"

#include "kernels/base/operands.hpp"

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
  table::adamw(context, scalars, tensors);
}

}  // namespace millrace::kernels
