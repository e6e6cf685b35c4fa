#include "kernels/delta_gates.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::DeltaGatesOptions;

ValueType gates_of(const ValueType& a) { return {kernels::DType::f32, a.shape}; }
bool are_parameters(const ValueType& a_log, const ValueType& dt_bias, const ValueType& a) {
  return rules::is_matrix(a) && rules::is_vector(a_log, a.shape.dimension(1)) && dt_bias == a_log;
}

/// dg, dbeta f32 [T, H], a, b [T, H], A_log and dt_bias f32 [H] → da, db.
class DeltaGatesInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "delta_gates_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "b"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 6 && are_parameters(inputs[4], inputs[5], inputs[2]) && inputs[3] == inputs[2] &&
                       inputs[0] == gates_of(inputs[2]) && inputs[1] == inputs[0],
                   name(), inputs, "dg and dbeta f32 [T, H], a and b [T, H], A_log and dt_bias f32 [H]");
    return {inputs[2], inputs[3]};
  }

  /// An exponential and a logarithm count one each. a + dt_bias, σ of it and two products; σ·(1 − σ) and a product.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {13 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::delta_gates_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::delta_gates_input_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5],
                                        attributes.as<DeltaGatesOptions>(), outputs[0], outputs[1]);
  }
};

/// dg f32 [T, H], a [T, H], A_log and dt_bias f32 [H]: adds into f32 [H] of either.
class DeltaGatesWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "delta_gates_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 4 && are_parameters(inputs[2], inputs[3], inputs[1]) && inputs[0] == gates_of(inputs[1]), name(),
                   inputs, "dg f32 [T, H], a [T, H], A_log and dt_bias f32 [H]");
    return {inputs[2], inputs[3]};
  }

  /// a + dt_bias, softplus and σ of it; of either two products and the sum.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {17 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::delta_gates_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::delta_gates_weight_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], attributes.as<DeltaGatesOptions>(),
                                         outputs[0], outputs[1]);
  }
};

class DeltaGates final : public OperationRule {
 public:
  std::string_view name() const override { return "delta_gates"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "beta"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 4 && are_parameters(inputs[2], inputs[3], inputs[0]) && inputs[1] == inputs[0], name(), inputs,
                   "a and b [T, H], A_log and dt_bias f32 [H]");
    return {gates_of(inputs[0]), gates_of(inputs[0])};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const DeltaGatesInputGradient rule;
    if (!rules::wants_any(builder, 2)) return;
    const auto gradients = builder.append(
        rule,
        {builder.output_gradient(0), builder.output_gradient(1), builder.input(0), builder.input(1), builder.input(2), builder.input(3)},
        builder.forward().attributes, "da");
    rules::add_gradients(builder, gradients);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const DeltaGatesWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.input(2), builder.input(3)},
                              {builder.accumulator(2), builder.accumulator(3)}, builder.forward().attributes, "dw");
  }

  /// a + dt_bias, softplus of it, the product with the rate; σ.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {12 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::delta_gates_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::delta_gates_forward(context, inputs[0], inputs[1], inputs[2], inputs[3], attributes.as<DeltaGatesOptions>(), outputs[0],
                                 outputs[1]);
  }
};

}  // namespace

std::pair<ValueId, ValueId> delta_gates(ProgramBuilder& builder, ValueId a, ValueId b, ValueId a_log, ValueId dt_bias,
                                        const kernels::DeltaGatesOptions& options, std::string_view name) {
  static const DeltaGates rule;
  const auto results = builder.append(rule, {a, b, a_log, dt_bias}, options, name);
  return {results[0], results[1]};
}

}  // namespace millrace::runtime
