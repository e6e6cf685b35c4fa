#include "kernels/layer_norm.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/layer_norm_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/layer_norm.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

// x, what has its shape and dtype, and a row's two numbers.
void check(const char* who, const Tensor& x, const Tensor& m, const Tensor& r) {
  check_rank(who, "x", x, 2);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "m", m, {x.shape[0]}, {DType::f32});
  check_operand(who, "r", r, {x.shape[0]}, {DType::f32});
}
void check_weights(const char* who, const char* name, const Tensor& x, const Tensor& w) {
  check_operand(who, name, w, {x.shape[1]}, {DType::f32});
}

}  // namespace

void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r) {
  constexpr const char* who = "kernels.layer_norm_forward";
  check(who, x, m, r);
  check_weights(who, "w", x, w);
  check_weights(who, "b", x, b);
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::layer_norm_forward(context, x, w, b, options, y, m, r);
  if (context.implementation() == Implementation::reference) return reference::layer_norm_forward(x, w, b, options, y, m, r);
  const auto loops = [&]<class T>(T) {
    return cpu::LayerNormForward<T>{x.as<T>(),     w.as<float>(), b.as<float>(),   y.as<T>(),     m.as<float>(),
                                    r.as<float>(), x.shape[1],    options.epsilon, options.offset};
  };
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_layer_norm_forward_f32()(loops(float{}), begin, end);
    else
      cpu::pick_layer_norm_forward_bf16()(loops(BFloat16{}), begin, end);
  });
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  constexpr const char* who = "kernels.layer_norm_input_gradient";
  check(who, x, m, r);
  check_weights(who, "w", x, w);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::layer_norm_input_gradient(context, dy, x, w, m, r, options, dx);
  if (context.implementation() == Implementation::reference) return reference::layer_norm_input_gradient(dy, x, w, m, r, options, dx);
  const auto loops = [&]<class T>(T) {
    return cpu::LayerNormInputGradient<T>{dy.as<T>(),    x.as<T>(),  w.as<float>(), m.as<float>(),
                                          r.as<float>(), dx.as<T>(), x.shape[1],    options.offset};
  };
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_layer_norm_input_gradient_f32()(loops(float{}), begin, end);
    else
      cpu::pick_layer_norm_input_gradient_bf16()(loops(BFloat16{}), begin, end);
  });
}

void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db) {
  constexpr const char* who = "kernels.layer_norm_weight_gradient";
  check(who, x, m, r);
  check_weights(who, "dw", x, dw);
  check_weights(who, "db", x, db);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::layer_norm_weight_gradient(context, dy, x, m, r, dw, db);
  if (context.implementation() == Implementation::reference) return reference::layer_norm_weight_gradient(dy, x, m, r, dw, db);
  const auto loops = [&]<class T>(T) {
    return cpu::LayerNormWeightGradient<T>{dy.as<T>(),     x.as<T>(),      m.as<float>(), r.as<float>(),
                                           dw.as<float>(), db.as<float>(), x.shape[0],    x.shape[1]};
  };
  // Threads own columns, so the order of a sum over rows does not depend on their number and no partial sums need memory.
  context.team().for_ranges(x.shape[1], kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_layer_norm_weight_gradient_f32()(loops(float{}), begin, end);
    else
      cpu::pick_layer_norm_weight_gradient_bf16()(loops(BFloat16{}), begin, end);
  });
}

}  // namespace millrace::kernels
