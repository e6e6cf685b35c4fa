#include "kernels/hyper_gates.hpp"

#include <array>
#include <cmath>

#include "kernels/base/hyper_gates_token.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokens = 16;  // that are worth a thread

// In double: where streams are equal, as in the first layer, gradients of the map are differences of equal sums, of which fp32 would leave
// rounding errors.
double gate_exponential(double x) { return std::exp(x); }
double keep(double x) { return x; }
double round_to_bf16(double x) { return static_cast<double>(to_float(to_bfloat16(static_cast<float>(x)))); }

using Numbers = std::array<double, max_gate_numbers>;

/// Reads a token's numbers, or writes them, in either dtype.
Numbers numbers_of(const Tensor& x, std::int64_t token) {
  Numbers numbers;
  const std::int64_t count = x.shape[1];
  for (std::int64_t i = 0; i < count; ++i)
    numbers[static_cast<std::size_t>(i)] =
        static_cast<double>(x.dtype == DType::f32 ? x.as<float>()[token * count + i] : to_float(x.as<BFloat16>()[token * count + i]));
  return numbers;
}
void put_numbers(const Numbers& numbers, const Tensor& y, std::int64_t token) {
  const std::int64_t count = y.shape[1];
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(numbers[static_cast<std::size_t>(i)]);
    if (y.dtype == DType::f32)
      y.as<float>()[token * count + i] = value;
    else
      y.as<BFloat16>()[token * count + i] = to_bfloat16(value);
  }
}

void hyper_gates(const ExecutionContext& context, const Tensor& x, HyperGatesOptions options, const Tensor& y) {
  context.team().for_ranges(x.shape[0], kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const Numbers from = numbers_of(x, token);
      Numbers to;
      hyper_gates_of_token(from.data(), options, to.data(), gate_exponential, x.dtype == DType::bf16 ? round_to_bf16 : keep);
      put_numbers(to, y, token);
    }
  });
}

void hyper_gates_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, HyperGatesOptions options,
                                const Tensor& dx) {
  context.team().for_ranges(x.shape[0], kTokens, [&](std::int64_t begin, std::int64_t end) {
    // The matrices before every step of the normalisation, 64 KiB of the stack.
    std::array<double, static_cast<std::size_t>(sinkhorn_steps(max_sinkhorn_iterations) * max_hyper_streams * max_hyper_streams)> steps;
    for (std::int64_t token = begin; token < end; ++token) {
      const Numbers from = numbers_of(x, token), gradient = numbers_of(dy, token);
      Numbers to;
      hyper_gates_gradient_of_token(gradient.data(), from.data(), options, steps.data(), to.data(), gate_exponential);
      put_numbers(to, dx, token);
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::hyper_gates, hyper_gates},
    {Backend::cpu, table::hyper_gates_input_gradient, hyper_gates_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
