#include "kernels/short_convolution.hpp"

#include "kernels/cpu/short_convolution_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

static_assert(kMaxTaps == max_convolution_taps && kMaxSpan == max_convolution_span);

template <class T>
ShortConvolution<T> operands(const Tensor& x, const Tensor& w, const Tensor& segments, ShortConvolutionOptions options) {
  const bool full = w.dtype == DType::f32;
  return {x.as<T>(),
          full ? w.as<float>() : nullptr,
          full ? nullptr : w.as<BFloat16>(),
          segments.as<std::int32_t>(),
          x.shape[0],
          options.sequence,
          x.shape[1],
          w.shape[w.shape.rank() - 1],
          options.dilation,
          options.silu,
          options.reset_at_segments && !options.one_segment};
}

// Each thread owns channels: sums over tokens do not depend on the number of threads.
template <class At, class Loop>
void over_channels(const ExecutionContext& context, const At& at, Loop* loop) {
  context.team().for_ranges(at.in.channels, kChannels, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
}

void short_convolution_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& segments,
                               ShortConvolutionOptions options, const Tensor& y) {
  const auto run = [&]<class T>(T, auto* loop) {
    over_channels(context, ShortConvolutionForward<T>{operands<T>(x, w, segments, options), y.as<T>()}, loop);
  };
  if (x.dtype == DType::f32)
    run(float{}, pick_short_convolution_forward_f32());
  else
    run(BFloat16{}, pick_short_convolution_forward_bf16());
}

void short_convolution_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const Tensor& segments, ShortConvolutionOptions options, const Tensor& dx) {
  const auto run = [&]<class T>(T, auto* loop) {
    over_channels(context, ShortConvolutionInputGradient<T>{operands<T>(x, w, segments, options), dy.as<T>(), dx.as<T>()}, loop);
  };
  if (x.dtype == DType::f32)
    run(float{}, pick_short_convolution_input_gradient_f32());
  else
    run(BFloat16{}, pick_short_convolution_input_gradient_bf16());
}

void short_convolution_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                       const Tensor& segments, ShortConvolutionOptions options, const Tensor& dw) {
  const auto run = [&]<class T>(T, auto* loop) {
    over_channels(context, ShortConvolutionWeightGradient<T>{operands<T>(x, w, segments, options), dy.as<T>(), dw.as<float>()}, loop);
  };
  if (x.dtype == DType::f32)
    run(float{}, pick_short_convolution_weight_gradient_f32());
  else
    run(BFloat16{}, pick_short_convolution_weight_gradient_bf16());
}

const InTable in_table[] = {
    {Backend::cpu, table::short_convolution_forward, short_convolution_forward},
    {Backend::cpu, table::short_convolution_input_gradient, short_convolution_input_gradient},
    {Backend::cpu, table::short_convolution_weight_gradient, short_convolution_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
