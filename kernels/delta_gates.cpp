#include "kernels/delta_gates.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& a, const Tensor& a_log, const Tensor& dt_bias) {
  check_rank(component, "a", a, 2);
  check_operand(component, "a", a, a.shape, {DType::f32, DType::bf16});
  check_operand(component, "a_log", a_log, {a.shape[1]}, {DType::f32});
  check_operand(component, "dt_bias", dt_bias, {a.shape[1]}, {DType::f32});
}

}  // namespace

void delta_gates_forward(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias,
                         DeltaGatesOptions options, const Tensor& g, const Tensor& beta) {
  constexpr const char* component = "kernels.delta_gates_forward";
  check(component, a, a_log, dt_bias);
  check_operand(component, "b", b, a.shape, {a.dtype});
  check_operand(component, "g", g, a.shape, {DType::f32});
  check_operand(component, "beta", beta, a.shape, {DType::f32});
  table::delta_gates_forward(context, a, b, a_log, dt_bias, options, g, beta);
}

void delta_gates_input_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& dbeta, const Tensor& a, const Tensor& b,
                                const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& da, const Tensor& db) {
  constexpr const char* component = "kernels.delta_gates_input_gradient";
  check(component, a, a_log, dt_bias);
  check_operand(component, "b", b, a.shape, {a.dtype});
  check_operand(component, "dg", dg, a.shape, {DType::f32});
  check_operand(component, "dbeta", dbeta, a.shape, {DType::f32});
  check_operand(component, "da", da, a.shape, {a.dtype});
  check_operand(component, "db", db, a.shape, {a.dtype});
  table::delta_gates_input_gradient(context, dg, dbeta, a, b, a_log, dt_bias, options, da, db);
}

void delta_gates_weight_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& a, const Tensor& a_log,
                                 const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& d_a_log, const Tensor& d_dt_bias) {
  constexpr const char* component = "kernels.delta_gates_weight_gradient";
  check(component, a, a_log, dt_bias);
  check_operand(component, "dg", dg, a.shape, {DType::f32});
  check_operand(component, "d_a_log", d_a_log, {a.shape[1]}, {DType::f32});
  check_operand(component, "d_dt_bias", d_dt_bias, {a.shape[1]}, {DType::f32});
  table::delta_gates_weight_gradient(context, dg, a, a_log, dt_bias, options, d_a_log, d_dt_bias);
}

}  // namespace millrace::kernels
