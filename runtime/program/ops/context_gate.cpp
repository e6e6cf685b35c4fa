#include "kernels/context_gate.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view gate_operands = "q and keys [T, k * D], v [T, D]";

bool are_gated(const ValueType& q, const ValueType& keys, const ValueType& v) {
  return rules::is_matrix(q) && q == keys && rules::is_matrix(v) && v.dtype == q.dtype && v.shape.dimension(0) == q.shape.dimension(0) &&
         v.shape[1] >= 1 && q.shape[1] % v.shape[1] == 0;
}

/// dy, q, keys [T, k·D], v [T, D], z f32 [T, k] → dq, d_keys, dv.
class ContextGateGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "context_gate_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "keys" : "values"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 5 && inputs[0] == inputs[1] && are_gated(inputs[1], inputs[2], inputs[3]) &&
                       inputs[4] == rules::scales_of(inputs[1], inputs[3].shape[1]),
                   name(), inputs, fmt::format("dy of q's type, {}, z f32 [T, k]", gate_operands));
    return {inputs[1], inputs[2], inputs[3]};
  }

  /// The products of dy and v, and their parts in three gradients.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {6 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::context_gate_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::context_gate_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], outputs[0], outputs[1], outputs[2]);
  }
};

/// q, keys [T, k·D], v [T, D] → y [T, k·D], z f32 [T, k].
class ContextGate final : public OperationRule {
 public:
  std::string_view name() const override { return "context_gate"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "z"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && are_gated(inputs[0], inputs[1], inputs[2]), name(), inputs, gate_operands);
    return {inputs[0], rules::scales_of(inputs[0], inputs[2].shape[1])};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const ContextGateGradient rule;
    if (!rules::wants_any(builder, 3)) return;
    rules::add_gradients(
        builder, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.input(2), builder.output(1)},
                                {}, "dx"));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::context_gate_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::context_gate_forward(context, inputs[0], inputs[1], inputs[2], outputs[1], outputs[0]);
  }
};

}  // namespace

ValueId context_gate(ProgramBuilder& builder, ValueId q, ValueId keys, ValueId v, std::string_view name) {
  static const ContextGate rule;
  return builder.append(rule, {q, keys, v}, {}, name)[0];
}

}  // namespace millrace::runtime
