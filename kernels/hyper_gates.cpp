#include "kernels/hyper_gates.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& x, const Tensor& y, const HyperGatesOptions& options) {
  const std::int64_t k = options.streams;
  MILLRACE_CHECK(k >= 1 && k <= (options.lite ? max_permuted_streams : max_hyper_streams), ExitCode::internal, component,
                 "{} streams, expected 1 to {}", k, options.lite ? max_permuted_streams : max_hyper_streams);
  MILLRACE_CHECK(options.iterations >= 1 && options.iterations <= max_sinkhorn_iterations, ExitCode::internal, component,
                 "{} iterations, expected 1 to {}", options.iterations, max_sinkhorn_iterations);
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, {x.shape[0], 2 * k + residual_logits(options)}, {DType::f32, DType::bf16});
  check_operand(component, "y", y, {x.shape[0], 2 * k + k * k}, {x.dtype});
}

}  // namespace

void hyper_gates(const ExecutionContext& context, const Tensor& x, HyperGatesOptions options, const Tensor& y) {
  check("kernels.hyper_gates", x, y, options);
  table::hyper_gates(context, x, options, y);
}

void hyper_gates_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, HyperGatesOptions options,
                                const Tensor& dx) {
  constexpr const char* component = "kernels.hyper_gates_input_gradient";
  check(component, x, dy, options);
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  table::hyper_gates_input_gradient(context, dy, x, options, dx);
}

}  // namespace millrace::kernels
