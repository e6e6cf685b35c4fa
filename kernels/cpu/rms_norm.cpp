#include "kernels/rms_norm.hpp"

#include "kernels/cpu/rms_norm_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

/// The number of sets of weights: w is [D] or [k, D].
std::int64_t sets_of(const Tensor& w) { return w.shape.rank() == 2 ? w.shape[0] : 1; }

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  const std::int64_t width = x.shape[1], sets = sets_of(w);
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_rms_norm_forward_f32()(
          {x.as<float>(), w.as<float>(), y.as<float>(), r.as<float>(), width, sets, options.epsilon, options.offset, options.round_first},
          begin, end);
    else
      pick_rms_norm_forward_bf16()({x.as<BFloat16>(), w.as<float>(), y.as<BFloat16>(), r.as<float>(), width, sets, options.epsilon,
                                    options.offset, options.round_first},
                                   begin, end);
  });
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  const std::int64_t width = x.shape[1], sets = sets_of(w);
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_rms_norm_input_gradient_f32()({dy.as<float>(), x.as<float>(), w.as<float>(), r.as<float>(),
                                          addend == nullptr ? nullptr : addend->as<float>(), dx.as<float>(), width, sets, options.offset},
                                         begin, end);
    else
      pick_rms_norm_input_gradient_bf16()(
          {dy.as<BFloat16>(), x.as<BFloat16>(), w.as<float>(), r.as<float>(), addend == nullptr ? nullptr : addend->as<BFloat16>(),
           dx.as<BFloat16>(), width, sets, options.offset},
          begin, end);
  });
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  const std::int64_t width = x.shape[1], sets = sets_of(dw), rows = x.shape[0] / sets;
  // Each thread owns columns, so the order of a sum over rows does not depend on the number of threads, and no partial sums need
  // memory.
  context.team().for_ranges(width, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t set = 0; set < sets; ++set) {
      float* sums = dw.as<float>() + set * width;
      if (x.dtype == DType::f32)
        pick_rms_norm_weight_gradient_f32()({dy.as<float>(), x.as<float>(), r.as<float>(), sums, rows, width, sets, set}, begin, end);
      else
        pick_rms_norm_weight_gradient_bf16()({dy.as<BFloat16>(), x.as<BFloat16>(), r.as<float>(), sums, rows, width, sets, set}, begin,
                                             end);
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::rms_norm_forward, rms_norm_forward},
    {Backend::cpu, table::rms_norm_input_gradient, rms_norm_input_gradient},
    {Backend::cpu, table::rms_norm_weight_gradient, rms_norm_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
