#include "kernels/softmax.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// dy, y [T, N] → dx [T, N].
class SoftmaxInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "softmax_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1], name(), inputs, "dy and y [T, N]");
    return {inputs[0]};
  }

  /// Per element: the product with y and its sum, then y·(dy − mean).
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {4 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::softmax_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::softmax_input_gradient(context, inputs[0], inputs[1], outputs[0]);
  }
};

class Softmax final : public OperationRule {
 public:
  std::string_view name() const override { return "softmax"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, N]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SoftmaxInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.output(0)}, {}, "dx")[0]);
  }

  /// Per element: the difference to the largest one, its exponential and the sum, twice but for the sum, and the quotient.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {6 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::softmax}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::softmax(context, inputs[0], outputs[0]);
  }
};

}  // namespace

ValueId softmax(ProgramBuilder& builder, ValueId x, std::string_view name) {
  static const Softmax rule;
  return builder.append(rule, {x}, {}, name)[0];
}

}  // namespace millrace::runtime
