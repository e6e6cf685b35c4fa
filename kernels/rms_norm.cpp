#include "kernels/rms_norm.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/rms_norm_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/rms_norm.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr std::int64_t kColumnGrain = 16;

// x and what has its shape and dtype; the weights; one number a row.
void check(const char* who, const Tensor& x) {
  check_rank(who, "x", x, 2);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
}
void check_weights(const char* who, const char* name, const Tensor& x, const Tensor& w) {
  check_operand(who, name, w, {x.shape[1]}, {DType::f32});
}
void check_rows(const char* who, const Tensor& x, const Tensor& r) { check_operand(who, "r", r, {x.shape[0]}, {DType::f32}); }

}  // namespace

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  constexpr const char* who = "kernels.rms_norm_forward";
  check(who, x);
  check_weights(who, "w", x, w);
  check_rows(who, x, r);
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::rms_norm_forward(context, x, w, options, y, r);
  if (context.implementation() == Implementation::reference) return reference::rms_norm_forward(x, w, options, y, r);
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_rms_norm_forward_f32()(
          {x.as<float>(), w.as<float>(), y.as<float>(), r.as<float>(), width, options.epsilon, options.offset, options.round_first}, begin,
          end);
    else
      cpu::pick_rms_norm_forward_bf16()(
          {x.as<BFloat16>(), w.as<float>(), y.as<BFloat16>(), r.as<float>(), width, options.epsilon, options.offset, options.round_first},
          begin, end);
  });
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  constexpr const char* who = "kernels.rms_norm_input_gradient";
  check(who, x);
  check_weights(who, "w", x, w);
  check_rows(who, x, r);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  if (addend != nullptr) check_operand(who, "addend", *addend, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::rms_norm_input_gradient(context, dy, x, w, r, options, dx, addend);
  if (context.implementation() == Implementation::reference) return reference::rms_norm_input_gradient(dy, x, w, r, options, dx, addend);
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_rms_norm_input_gradient_f32()({dy.as<float>(), x.as<float>(), w.as<float>(), r.as<float>(),
                                               addend == nullptr ? nullptr : addend->as<float>(), dx.as<float>(), width, options.offset},
                                              begin, end);
    else
      cpu::pick_rms_norm_input_gradient_bf16()(
          {dy.as<BFloat16>(), x.as<BFloat16>(), w.as<float>(), r.as<float>(), addend == nullptr ? nullptr : addend->as<BFloat16>(),
           dx.as<BFloat16>(), width, options.offset},
          begin, end);
  });
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw,
                              Scratch /*scratch*/) {
  constexpr const char* who = "kernels.rms_norm_weight_gradient";
  check(who, x);
  check_weights(who, "dw", x, dw);
  check_rows(who, x, r);
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::rms_norm_weight_gradient(context, dy, x, r, dw);
  if (context.implementation() == Implementation::reference) return reference::rms_norm_weight_gradient(dy, x, r, dw);
  const std::int64_t rows = x.shape[0];
  const std::int64_t width = x.shape[1];
  // Threads own columns, so the order of a sum over rows does not depend on their number and no partial sums need memory.
  context.team().for_ranges(width, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_rms_norm_weight_gradient_f32()({dy.as<float>(), x.as<float>(), r.as<float>(), dw.as<float>(), rows, width}, begin, end);
    else
      cpu::pick_rms_norm_weight_gradient_bf16()({dy.as<BFloat16>(), x.as<BFloat16>(), r.as<float>(), dw.as<float>(), rows, width}, begin,
                                                end);
  });
}

std::size_t rms_norm_weight_gradient_scratch_bytes(const Shape& /*x*/, const Processor& /*processor*/) { return 0; }

}  // namespace millrace::kernels
