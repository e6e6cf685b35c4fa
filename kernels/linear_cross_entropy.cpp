#include "kernels/linear_cross_entropy.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_head(const char* component, const Tensor& h, const Tensor& w) {
  check_rank(component, "h", h, 2);
  check_rank(component, "w", w, 2);
  check_operand(component, "h", h, h.shape, {DType::f32, DType::bf16});
  check_operand(component, "w", w, {w.shape[0], h.shape[1]}, {h.dtype});
}

void check_common(const char* component, const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                  const Tensor& log_sum_exp) {
  check_head(component, h, w);
  const std::int64_t tokens = h.shape[0], vocabulary = w.shape[0];
  check_operand(component, "targets", targets, {tokens}, {DType::i32});
  check_operand(component, "log_sum_exp", log_sum_exp, {tokens}, {DType::f32});
  if (!context.host_readable()) return;  // the kernel checks them
  const auto* target = targets.as<std::int32_t>();
  for (std::int64_t token = 0; token < tokens; ++token)
    MILLRACE_CHECK(target[token] < vocabulary, ExitCode::data, component,
                   "target {} at position {}, expected less than the vocabulary's {}", target[token], token, vocabulary);
}

/// Checks the operands of the calls that compute loss and dh.
void check_with_loss(const char* component, const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                     const Tensor& g, const Tensor& dh, const Tensor& loss, const Tensor& log_sum_exp) {
  check_common(component, context, h, w, targets, log_sum_exp);
  check_operand(component, "g", g, {1}, {DType::f32});
  check_operand(component, "dh", dh, h.shape, {h.dtype});
  check_operand(component, "loss", loss, {2}, {DType::f64});
}

void check_own_scratch(const char* component, const ExecutionContext& context, const Tensor& h, const Tensor& w,
                       CrossEntropyOptions options, Scratch scratch) {
  check_scratch(component, scratch, needed_scratch(table::linear_cross_entropy_scratch_bytes, context, h.shape, w.shape, h.dtype, options));
}

}  // namespace

void linear_cross_entropy_forward(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch) {
  constexpr const char* component = "kernels.linear_cross_entropy_forward";
  check_common(component, context, h, w, targets, log_sum_exp);
  check_operand(component, "loss", loss, {2}, {DType::f64});
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_cross_entropy_forward(context, h, w, targets, options, loss, log_sum_exp, scratch);
}

void linear_cross_entropy_input_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                         const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                         const Tensor& log_sum_exp, Scratch scratch) {
  constexpr const char* component = "kernels.linear_cross_entropy_input_gradient";
  check_with_loss(component, context, h, w, targets, g, dh, loss, log_sum_exp);
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_cross_entropy_input_gradient(context, h, w, targets, g, options, dh, loss, log_sum_exp, scratch);
}

void linear_cross_entropy_gradients(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                    const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch) {
  constexpr const char* component = "kernels.linear_cross_entropy_gradients";
  check_with_loss(component, context, h, w, targets, g, dh, loss, log_sum_exp);
  check_operand(component, "dw", dw, w.shape, {DType::f32});
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_cross_entropy_gradients(context, h, w, targets, g, options, dh, loss, log_sum_exp, dw, scratch);
}

void linear_cross_entropy_weight_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch) {
  constexpr const char* component = "kernels.linear_cross_entropy_weight_gradient";
  check_common(component, context, h, w, targets, log_sum_exp);
  check_operand(component, "g", g, {1}, {DType::f32});
  check_operand(component, "dw", dw, w.shape, {DType::f32});
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_cross_entropy_weight_gradient(context, h, w, targets, log_sum_exp, g, options, dw, scratch);
}

void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch) {
  constexpr const char* component = "kernels.linear_logits";
  check_head(component, h, w);
  check_operand(component, "logits", logits, {h.shape[0], w.shape[0]}, {DType::f32});
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_logits(context, h, w, options, logits, scratch);
}

void linear_argmax(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& entries,
                   Scratch scratch) {
  constexpr const char* component = "kernels.linear_argmax";
  check_head(component, h, w);
  check_operand(component, "entries", entries, {h.shape[0]}, {DType::i32});
  check_own_scratch(component, context, h, w, options, scratch);
  table::linear_argmax(context, h, w, options, entries, scratch);
}

int linear_cross_entropy_gradients_products(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                            const Processor& processor) {
  return table::linear_cross_entropy_gradients_products.on(device_type(processor.device).facts().backend)(h, w, dtype, options, processor);
}

std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                               const Processor& processor) {
  return planned_scratch(table::linear_cross_entropy_scratch_bytes, processor, h, w, dtype, options);
}

}  // namespace millrace::kernels
