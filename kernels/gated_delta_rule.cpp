#include "kernels/gated_delta_rule.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_sizes(const char* component, const Shape& q, const Shape& v, GatedDeltaRuleOptions options) {
  MILLRACE_CHECK(q.rank() == 3 && v.rank() == 3, ExitCode::internal, component, "q is {}, v is {}, expected [T, Hk, dk] and [T, Hv, dv]",
                 to_string(q), to_string(v));
  MILLRACE_CHECK(q[1] > 0 && v[1] > 0 && v[1] % q[1] == 0, ExitCode::config, component,
                 "{} value heads on {} key heads, expected a multiple", v[1], q[1]);
  check_rows(component, q[0], options.sequence);
  MILLRACE_CHECK(q[2] > 0 && v[2] > 0, ExitCode::config, component, "heads of {} x {}, expected 1 or more", q[2], v[2]);
  MILLRACE_CHECK((options.head_k_dim == 0 || options.head_k_dim == q[2]) && (options.head_v_dim == 0 || options.head_v_dim == v[2]),
                 ExitCode::internal, component, "heads of {} x {}, expected {} x {} as in the options", q[2], v[2], options.head_k_dim,
                 options.head_v_dim);
}

void check_operands(const char* component, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta,
                    const Tensor& segments, GatedDeltaRuleOptions options) {
  check_sizes(component, q.shape, v.shape, options);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "k", k, q.shape, {q.dtype});
  check_operand(component, "v", v, {q.shape[0], v.shape[1], v.shape[2]}, {q.dtype});
  check_operand(component, "g", g, {q.shape[0], v.shape[1]}, {DType::f32});
  check_operand(component, "beta", beta, {q.shape[0], v.shape[1]}, {DType::f32});
  check_operand(component, "segments", segments, {q.shape[0]}, {DType::i32});
}

}  // namespace

void gated_delta_rule_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& o, Scratch scratch) {
  constexpr const char* component = "kernels.gated_delta_rule_forward";
  check_operands(component, q, k, v, g, beta, segments, options);
  check_operand(component, "o", o, v.shape, {q.dtype});
  check_scratch(component, scratch, needed_scratch(table::gated_delta_rule_forward_scratch_bytes, context, q.shape, v.shape, options));
  table::gated_delta_rule_forward(context, q, k, v, g, beta, segments, options, o, scratch);
}

void gated_delta_rule_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& g, const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dg, const Tensor& dbeta,
                                     Scratch scratch) {
  constexpr const char* component = "kernels.gated_delta_rule_input_gradient";
  check_operands(component, q, k, v, g, beta, segments, options);
  check_operand(component, "d_o", d_o, v.shape, {q.dtype});
  check_operand(component, "dq", dq, q.shape, {q.dtype});
  check_operand(component, "dk", dk, q.shape, {q.dtype});
  check_operand(component, "dv", dv, v.shape, {q.dtype});
  check_operand(component, "dg", dg, g.shape, {DType::f32});
  check_operand(component, "dbeta", dbeta, g.shape, {DType::f32});
  check_scratch(component, scratch, needed_scratch(table::gated_delta_rule_gradient_scratch_bytes, context, q.shape, v.shape, options));
  table::gated_delta_rule_input_gradient(context, d_o, q, k, v, g, beta, segments, options, dq, dk, dv, dg, dbeta, scratch);
}

GatedDeltaRuleFlops gated_delta_rule_flops(std::int64_t tokens, std::int64_t key_heads, std::int64_t value_heads,
                                           GatedDeltaRuleOptions options) {
  constexpr std::int64_t chunk = gated_delta_rule_chunk;
  const std::int64_t whole = options.sequence / chunk, rest = options.sequence % chunk;
  const auto t = static_cast<double>(tokens), dk = static_cast<double>(options.head_k_dim), dv = static_cast<double>(options.head_v_dim);
  const auto hk = static_cast<double>(key_heads), hv = static_cast<double>(value_heads);
  // Pairs of a token with an earlier one of its chunk or with itself.
  const double pairs =
      t / static_cast<double>(options.sequence) * static_cast<double>(whole * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2);
  const double state = 2 * t * hv * dk * dv;  // a product of a chunk's tokens with a state
  const double keys = 2 * pairs * hk * dk, values = 2 * pairs * hv * dv, keys_of_values = 2 * pairs * hv * dk;
  // Forward: KΩ, QΩ, KᵀU; KKᵀ, QKᵀ; the solution for U, and PU. Gradient: KΩ, KᵀU, KKᵀ and the solution again; six products with states
  // (K·dΩ, dO·Ωᵀ, dU·Ωᵀ, U·dΩᵀ, Qᵀ·dO, Kᵀ·dS); KKᵀ, QKᵀ; PᵀdO, dO·Uᵀ, the solution for dU, dU·Uᵀ; the four that lead to dQ and dK.
  return {3 * state + 2 * keys + 2 * values, 8 * state + 3 * keys + 5 * values + 4 * keys_of_values};
}

std::size_t gated_delta_rule_forward_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                   const Processor& processor) {
  check_sizes("kernels.gated_delta_rule_forward_scratch_bytes", q, v, options);
  return planned_scratch(table::gated_delta_rule_forward_scratch_bytes, processor, q, v, options);
}

std::size_t gated_delta_rule_gradient_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                    const Processor& processor) {
  check_sizes("kernels.gated_delta_rule_gradient_scratch_bytes", q, v, options);
  return planned_scratch(table::gated_delta_rule_gradient_scratch_bytes, processor, q, v, options);
}

}  // namespace millrace::kernels
