#include "kernels/adamw.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/adamw.hpp"
#include "kernels/reference/adamw.hpp"

namespace millrace::kernels {

void adamw(const Stream& stream, const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v, const Tensor& gradient,
           const Tensor& copy) {
  constexpr const char* who = "kernels.adamw";
  require_cpu(stream, who);
  MILLRACE_CHECK(scalars.update >= 1, ExitCode::internal, who, "update {}, wanted 1 or more", scalars.update);
  check_operand(who, "p", p, p.shape, {DType::f32});
  check_operand(who, "m", m, p.shape, {DType::f32});
  check_operand(who, "v", v, p.shape, {DType::f32});
  check_operand(who, "gradient", gradient, p.shape, {DType::f32});
  if (copy) check_operand(who, "copy", copy, p.shape, {DType::bf16});
  if (stream.implementation() == Implementation::reference) return reference::adamw(scalars, p, m, v, gradient, copy);
  cpu::adamw(stream, scalars, p, m, v, gradient, copy);
}

}  // namespace millrace::kernels
