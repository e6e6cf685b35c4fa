#include "kernels/matmul.hpp"

#include "kernels/base/device_type.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {

bool products_add_bias(Device device, DType result) noexcept { return device_type(device).facts().adds_bias || result == DType::bf16; }

void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend) {
  constexpr const char* component = "kernels.matmul";
  check_rank(component, "a", a, 2);
  check_rank(component, "b", b, 2);
  const std::int64_t m = a.shape[options.transpose_a ? 1 : 0], k = a.shape[options.transpose_a ? 0 : 1];
  const std::int64_t n = b.shape[options.transpose_b ? 0 : 1];
  check_operand(component, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(component, "b", b, options.transpose_b ? Shape{n, k} : Shape{k, n}, {a.dtype});
  if (options.accumulate)
    check_operand(component, "c (accumulated into)", c, {m, n}, {DType::f32});
  else
    check_operand(component, "c", c, {m, n}, {DType::f32, a.dtype});
  MILLRACE_CHECK(options.addend == (addend != nullptr) && !(options.addend && options.accumulate), ExitCode::internal, component,
                 "an addend is {}, given {}, and the result is {}", options.addend ? "announced" : "not announced",
                 addend != nullptr ? "one" : "none", options.accumulate ? "accumulated" : "written");
  MILLRACE_CHECK(!options.bias || options.addend, ExitCode::internal, component, "a bias without an addend, expected it to be the addend");
  if (addend != nullptr && options.bias)
    check_operand(component, "bias", *addend, {n}, {DType::f32});
  else if (addend != nullptr)
    check_operand(component, "addend", *addend, {m, n}, {c.dtype});
  table::matmul(context, a, b, c, options, scratch, addend);
}

std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                 const Processor& processor) {
  return planned_scratch(table::matmul_scratch_bytes, processor, a, b, operands, result, options);
}

}  // namespace millrace::kernels
