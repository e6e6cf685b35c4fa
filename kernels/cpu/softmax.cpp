#include "kernels/softmax.hpp"

#include "kernels/cpu/softmax_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 8;

void softmax(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_softmax_rows_f32()(x.as<float>(), width, begin, end, y.as<float>());
    else
      pick_softmax_rows_bf16()(x.as<BFloat16>(), width, begin, end, y.as<BFloat16>());
  });
}

void softmax_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  const std::int64_t width = y.shape[1];
  context.team().for_ranges(y.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (y.dtype == DType::f32)
      pick_softmax_gradient_rows_f32()(dy.as<float>(), y.as<float>(), width, begin, end, dx.as<float>());
    else
      pick_softmax_gradient_rows_bf16()(dy.as<BFloat16>(), y.as<BFloat16>(), width, begin, end, dx.as<BFloat16>());
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::softmax, softmax},
    {Backend::cpu, table::softmax_input_gradient, softmax_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
