#include "kernels/layer_norm.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// dy, x [T, D], weight f32 [D], mean and r f32 [T] → dx [T, D].
class LayerNormInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "layer_norm_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 5 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] &&
                       rules::is_vector(inputs[2], inputs[1].shape.dimension(1)) &&
                       rules::is_vector(inputs[3], inputs[1].shape.dimension(0)) && inputs[4] == inputs[3],
                   name(), inputs, "dy and x [T, D], weight f32 [D], mean and r f32 [T]");
    return {inputs[0]};
  }

  /// Per element: g, the normalised value, two sums, and the result from these.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {11 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::layer_norm_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::layer_norm_input_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4],
                                       attributes.as<kernels::LayerNormOptions>(), outputs[0]);
  }
};

/// dy, x [T, D], mean and r f32 [T]: adds into f32 [D] of the weight and of the bias.
class LayerNormWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "layer_norm_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 4 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] &&
                       rules::is_vector(inputs[2], inputs[1].shape.dimension(0)) && inputs[3] == inputs[2],
                   name(), inputs, "dy and x [T, D], mean and r f32 [T]");
    const ValueType sums{kernels::DType::f32, {inputs[0].shape.dimension(1)}};
    return {sums, sums};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {5 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::layer_norm_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::layer_norm_weight_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], outputs[0], outputs[1]);
  }
};

class LayerNorm final : public OperationRule {
 public:
  std::string_view name() const override { return "layer_norm"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "mean" : "r"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && rules::is_vector(inputs[1], inputs[0].shape.dimension(1)) &&
                       inputs[2] == inputs[1],
                   name(), inputs, "x [T, D], weight and bias f32 [D]");
    const ValueType numbers{kernels::DType::f32, {inputs[0].shape.dimension(0)}};
    return {inputs[0], numbers, numbers};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const LayerNormInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(
        0, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.output(1), builder.output(2)},
                          builder.forward().attributes, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const LayerNormWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.output(1), builder.output(2)},
                              {builder.accumulator(1), builder.accumulator(2)}, {}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {8 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::layer_norm_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::layer_norm_forward(context, inputs[0], inputs[1], inputs[2], attributes.as<kernels::LayerNormOptions>(), outputs[0],
                                outputs[1], outputs[2]);
  }
};

}  // namespace

ValueId layer_norm(ProgramBuilder& builder, ValueId x, ValueId weight, ValueId bias, const kernels::LayerNormOptions& options,
                   std::string_view name) {
  static const LayerNorm rule;
  return builder.append(rule, {x, weight, bias}, options, name)[0];
}

}  // namespace millrace::runtime
