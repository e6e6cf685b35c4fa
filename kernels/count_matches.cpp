#include "kernels/count_matches.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void count_matches(const ExecutionContext& context, const Tensor& x, const Tensor& y, const Tensor& targets, const Tensor& count) {
  constexpr const char* component = "kernels.count_matches";
  check_rank(component, "x", x, 1);
  check_operand(component, "x", x, x.shape, {DType::i32});
  check_operand(component, "y", y, x.shape, {DType::i32});
  check_operand(component, "targets", targets, x.shape, {DType::i32});
  check_operand(component, "count", count, {1}, {DType::f64});
  table::count_matches(context, x, y, targets, count);
}

}  // namespace millrace::kernels
