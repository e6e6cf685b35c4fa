#include "kernels/l2_norm.hpp"

#include "kernels/cpu/l2_norm_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowElements = 1024;  // of the rows that are worth a thread

std::int64_t grain(std::int64_t width) { return kRowElements / (width > 0 ? width : 1) + 1; }

void l2_norm_forward(const ExecutionContext& context, const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r) {
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], grain(width), [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_l2_norm_forward_f32()({x.as<float>(), y.as<float>(), r.as<float>(), width, options.epsilon}, begin, end);
    else
      pick_l2_norm_forward_bf16()({x.as<BFloat16>(), y.as<BFloat16>(), r.as<float>(), width, to_float(to_bfloat16(options.epsilon))}, begin,
                                  end);
  });
}

void l2_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx) {
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], grain(width), [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_l2_norm_input_gradient_f32()({dy.as<float>(), x.as<float>(), r.as<float>(), dx.as<float>(), width}, begin, end);
    else
      pick_l2_norm_input_gradient_bf16()({dy.as<BFloat16>(), x.as<BFloat16>(), r.as<float>(), dx.as<BFloat16>(), width}, begin, end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::l2_norm_forward, l2_norm_forward},
    {Backend::cpu, table::l2_norm_input_gradient, l2_norm_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
