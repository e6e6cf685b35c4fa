#include "kernels/square_sum.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/square_sum.hpp"
#include "kernels/reference/square_sum.hpp"

namespace millrace::kernels {

double square_sum(const Stream& stream, const Tensor& x) {
  constexpr const char* who = "kernels.square_sum";
  require_cpu(stream, who);
  check_operand(who, "x", x, x.shape, {DType::f32});
  return stream.implementation() == Implementation::reference ? reference::square_sum(x) : cpu::square_sum(stream, x);
}

}  // namespace millrace::kernels
