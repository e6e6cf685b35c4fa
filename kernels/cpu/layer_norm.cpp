#include "kernels/layer_norm.hpp"

#include "kernels/cpu/layer_norm_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r) {
  const auto loops = [&]<class T>(T) {
    return LayerNormForward<T>{x.as<T>(),     w.as<float>(), b.as<float>(),   y.as<T>(),     m.as<float>(),
                               r.as<float>(), x.shape[1],    options.epsilon, options.offset};
  };
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_layer_norm_forward_f32()(loops(float{}), begin, end);
    else
      pick_layer_norm_forward_bf16()(loops(BFloat16{}), begin, end);
  });
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  const auto loops = [&]<class T>(T) {
    return LayerNormInputGradient<T>{dy.as<T>(),    x.as<T>(),  w.as<float>(), m.as<float>(),
                                     r.as<float>(), dx.as<T>(), x.shape[1],    options.offset};
  };
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_layer_norm_input_gradient_f32()(loops(float{}), begin, end);
    else
      pick_layer_norm_input_gradient_bf16()(loops(BFloat16{}), begin, end);
  });
}

void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db) {
  const auto loops = [&]<class T>(T) {
    return LayerNormWeightGradient<T>{dy.as<T>(),     x.as<T>(),      m.as<float>(), r.as<float>(),
                                      dw.as<float>(), db.as<float>(), x.shape[0],    x.shape[1]};
  };
  // Each thread owns columns, so the order of a sum over rows does not depend on the number of threads, and no partial sums need
  // memory.
  context.team().for_ranges(x.shape[1], kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_layer_norm_weight_gradient_f32()(loops(float{}), begin, end);
    else
      pick_layer_norm_weight_gradient_bf16()(loops(BFloat16{}), begin, end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::layer_norm_forward, layer_norm_forward},
    {Backend::cpu, table::layer_norm_input_gradient, layer_norm_input_gradient},
    {Backend::cpu, table::layer_norm_weight_gradient, layer_norm_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
