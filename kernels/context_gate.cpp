#include "kernels/context_gate.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_gate(const char* component, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z) {
  check_rank(component, "q", q, 2);
  check_rank(component, "v", v, 2);
  check_operand(component, "q", q, q.shape, {DType::f32, DType::bf16});
  check_operand(component, "keys", keys, q.shape, {q.dtype});
  check_operand(component, "v", v, {q.shape[0], v.shape[1]}, {q.dtype});
  MILLRACE_CHECK(v.shape[1] >= 1 && q.shape[1] % v.shape[1] == 0 && q.shape[1] / v.shape[1] <= max_gated_streams, ExitCode::internal,
                 component, "q {} with v {}, expected 1 to {} streams of v's width", to_string(q.shape), to_string(v.shape),
                 max_gated_streams);
  check_operand(component, "z", z, {q.shape[0], q.shape[1] / v.shape[1]}, {DType::f32});
}

}  // namespace

void context_gate_forward(const ExecutionContext& context, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z,
                          const Tensor& y) {
  constexpr const char* component = "kernels.context_gate_forward";
  check_gate(component, q, keys, v, z);
  check_operand(component, "y", y, q.shape, {q.dtype});
  table::context_gate_forward(context, q, keys, v, z, y);
}

void context_gate_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& q, const Tensor& keys, const Tensor& v,
                           const Tensor& z, const Tensor& dq, const Tensor& d_keys, const Tensor& dv) {
  constexpr const char* component = "kernels.context_gate_gradient";
  check_gate(component, q, keys, v, z);
  check_operand(component, "dy", dy, q.shape, {q.dtype});
  check_operand(component, "dq", dq, q.shape, {q.dtype});
  check_operand(component, "d_keys", d_keys, q.shape, {q.dtype});
  check_operand(component, "dv", dv, v.shape, {q.dtype});
  table::context_gate_gradient(context, dy, q, keys, v, z, dq, d_keys, dv);
}

}  // namespace millrace::kernels
