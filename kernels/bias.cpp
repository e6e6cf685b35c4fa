#include "kernels/bias.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/bias_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/bias.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

void check(const char* who, const char* name, const Tensor& x, const Tensor& b) {
  check_rank(who, name, x, 2);
  check_operand(who, name, x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "b", b, {x.shape[1]}, {DType::f32});
}

}  // namespace

void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.bias_forward";
  check(who, "x", x, b);
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::bias_forward(context, x, b, y);
  if (context.implementation() == Implementation::reference) return reference::bias_forward(x, b, y);
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_bias_forward_f32()({x.as<float>(), b.as<float>(), y.as<float>(), x.shape[1]}, begin, end);
    else
      cpu::pick_bias_forward_bf16()({x.as<BFloat16>(), b.as<float>(), y.as<BFloat16>(), x.shape[1]}, begin, end);
  });
}

void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db) {
  constexpr const char* who = "kernels.bias_weight_gradient";
  check(who, "dy", dy, db);
  if (context.on_cuda()) return cuda::bias_weight_gradient(context, dy, db);
  if (context.implementation() == Implementation::reference) return reference::bias_weight_gradient(dy, db);
  // Threads own columns, so the order of a sum over rows does not depend on their number and no partial sums need memory.
  context.team().for_ranges(dy.shape[1], kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    if (dy.dtype == DType::f32)
      cpu::pick_bias_weight_gradient_f32()({dy.as<float>(), db.as<float>(), dy.shape[0], dy.shape[1]}, begin, end);
    else
      cpu::pick_bias_weight_gradient_bf16()({dy.as<BFloat16>(), db.as<float>(), dy.shape[0], dy.shape[1]}, begin, end);
  });
}

}  // namespace millrace::kernels
