#include "kernels/capacity.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/base/route_options.hpp"

namespace millrace::kernels {

void apply_capacity(const ExecutionContext& context, const Tensor& weights, const Tensor& experts, const CapacityOptions& options,
                    const Tensor& kept_weights, const Tensor& kept, const Tensor& dropped) {
  constexpr const char* component = "kernels.apply_capacity";
  check_rank(component, "experts", experts, 2);
  check_operand(component, "experts", experts, experts.shape, {DType::i32});
  check_operand(component, "weights", weights, experts.shape, {DType::f32});
  check_operand(component, "kept_weights", kept_weights, experts.shape, {DType::f32});
  check_operand(component, "kept", kept, experts.shape, {DType::i32});
  check_operand(component, "dropped", dropped, {1}, {DType::i32});
  MILLRACE_CHECK(options.sequences >= 1 && experts.shape[0] % options.sequences == 0, ExitCode::internal, component,
                 "experts is {}, expected tokens of {} sequences", to_string(experts.shape), options.sequences);
  MILLRACE_CHECK(options.experts >= 1 && options.experts <= max_experts && options.capacity >= 0, ExitCode::internal, component,
                 "{} experts with a capacity of {}, expected 1 to {} and 0 or more", options.experts, options.capacity, max_experts);
  if (context.host_readable()) check_indices(component, "expert", experts, options.experts);
  table::apply_capacity(context, weights, experts, options, kept_weights, kept, dropped);
}

void apply_capacity_input_gradient(const ExecutionContext& context, const Tensor& d_kept_weights, const Tensor& kept,
                                   const Tensor& d_weights) {
  constexpr const char* component = "kernels.apply_capacity_input_gradient";
  check_rank(component, "kept", kept, 2);
  check_operand(component, "kept", kept, kept.shape, {DType::i32});
  check_operand(component, "d_kept_weights", d_kept_weights, kept.shape, {DType::f32});
  check_operand(component, "d_weights", d_weights, kept.shape, {DType::f32});
  table::apply_capacity_input_gradient(context, d_kept_weights, kept, d_weights);
}

}  // namespace millrace::kernels
