#include "kernels/bias.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// dy [T, N]: adds into f32 [N].
class BiasWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "bias_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "dy [T, N]");
    return {{kernels::DType::f32, {inputs[0].shape.dimension(1)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::bias_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::bias_weight_gradient(context, inputs[0], outputs[0]);
  }
};

class Bias final : public OperationRule {
 public:
  std::string_view name() const override { return "bias"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_vector(inputs[1], inputs[0].shape.dimension(1)), name(),
                   inputs, "x [T, N] and bias f32 [N]");
    return {inputs[0]};
  }

  /// The gradient is the result's: nothing is computed.
  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.add_gradient(0, builder.output_gradient(0));
  }

  void weight_gradient(GradientBuilder& builder) const override {
    builder.append_accumulate(bias_weight_gradient_rule(), {builder.output_gradient(0)}, {builder.accumulator(1)}, {}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::bias_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::bias_forward(context, inputs[0], inputs[1], outputs[0]);
  }
};

}  // namespace

const OperationRule& bias_weight_gradient_rule() {
  static const BiasWeightGradient rule;
  return rule;
}

const OperationRule& bias_rule() {
  static const Bias rule;
  return rule;
}

ValueId add_bias(ProgramBuilder& builder, ValueId x, ValueId bias, std::string_view name) {
  return builder.append(bias_rule(), {x, bias}, {}, name)[0];
}

}  // namespace millrace::runtime
