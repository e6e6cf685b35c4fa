#include "kernels/short_convolution.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& x, const Tensor& w, const Tensor& segments, ShortConvolutionOptions options) {
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  MILLRACE_CHECK((w.shape.rank() == 2 || (w.shape.rank() == 3 && w.shape[1] == 1)) && w.shape[0] == x.shape[1], ExitCode::internal,
                 component, "w is {}, expected [{}, 1, W]", to_string(w.shape), x.shape[1]);
  const std::int64_t taps = w.shape[w.shape.rank() - 1];
  MILLRACE_CHECK(taps >= 1 && taps <= max_convolution_taps, ExitCode::config, component, "{} taps, expected 1 to {}", taps,
                 max_convolution_taps);
  MILLRACE_CHECK(options.dilation >= 1 && (taps - 1) * options.dilation < max_convolution_span, ExitCode::config, component,
                 "{} taps with a dilation of {}, expected a dilation of 1 or more and at most {} places from the first tap to the last",
                 taps, options.dilation, max_convolution_span);
  check_operand(component, "w", w, w.shape, {x.dtype, DType::f32});
  check_operand(component, "segments", segments, {x.shape[0]}, {DType::i32});
  check_rows(component, x.shape[0], options.sequence);
}

}  // namespace

void short_convolution_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& segments,
                               ShortConvolutionOptions options, const Tensor& y) {
  constexpr const char* component = "kernels.short_convolution_forward";
  check(component, x, w, segments, options);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::short_convolution_forward(context, x, w, segments, options, y);
}

void short_convolution_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const Tensor& segments, ShortConvolutionOptions options, const Tensor& dx) {
  constexpr const char* component = "kernels.short_convolution_input_gradient";
  check(component, x, w, segments, options);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  table::short_convolution_input_gradient(context, dy, x, w, segments, options, dx);
}

void short_convolution_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                       const Tensor& segments, ShortConvolutionOptions options, const Tensor& dw) {
  constexpr const char* component = "kernels.short_convolution_weight_gradient";
  check(component, x, w, segments, options);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dw", dw, w.shape, {DType::f32});
  table::short_convolution_weight_gradient(context, dy, x, w, segments, options, dw);
}

}  // namespace millrace::kernels
