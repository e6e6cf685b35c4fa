#include "kernels/bias.hpp"

#include "kernels/cpu/bias_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y) {
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_bias_forward_f32()({x.as<float>(), b.as<float>(), y.as<float>(), x.shape[1]}, begin, end);
    else
      pick_bias_forward_bf16()({x.as<BFloat16>(), b.as<float>(), y.as<BFloat16>(), x.shape[1]}, begin, end);
  });
}

void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db) {
  // Each thread owns columns, so the order of a sum over rows does not depend on the number of threads, and no partial sums need
  // memory.
  context.team().for_ranges(dy.shape[1], kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    if (dy.dtype == DType::f32)
      pick_bias_weight_gradient_f32()({dy.as<float>(), db.as<float>(), dy.shape[0], dy.shape[1]}, begin, end);
    else
      pick_bias_weight_gradient_bf16()({dy.as<BFloat16>(), db.as<float>(), dy.shape[0], dy.shape[1]}, begin, end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::bias_forward, bias_forward},
    {Backend::cpu, table::bias_weight_gradient, bias_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
