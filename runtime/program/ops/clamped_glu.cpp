#include "kernels/clamped_glu.hpp"

#include <algorithm>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::ClampedGluOptions;

bool are_alike(std::span<const ValueType> inputs, std::size_t count) {
  return inputs.size() == count && rules::is_matrix(inputs[0]) &&
         std::ranges::all_of(inputs, [&](const ValueType& type) { return type == inputs[0]; });
}

/// dy, gate, up [T, F] → d_gate, d_up.
class ClampedGluInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "clamped_glu_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "up"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_alike(inputs, 3), name(), inputs, "dy, gate and up of one type [T, F]");
    return {inputs[0], inputs[0]};
  }

  /// Three comparisons of the operands' limits, σ with its factor, and the products of both gradients.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {17 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::clamped_glu_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::clamped_glu_input_gradient(context, inputs[0], inputs[1], inputs[2], attributes.as<ClampedGluOptions>(), outputs[0],
                                        outputs[1]);
  }
};

class ClampedGlu final : public OperationRule {
 public:
  std::string_view name() const override { return "clamped_glu"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(are_alike(inputs, 2) && attributes.as<ClampedGluOptions>().limit > 0, name(), inputs,
                   "gate and up of one type [T, F], and a limit above 0");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const ClampedGluInputGradient rule;
    if (!rules::wants_any(builder, 2)) return;
    rules::add_gradients(builder, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1)},
                                                 builder.forward().attributes, "dx"));
  }

  /// Three comparisons of the operands' limits, σ with its factor, the sum and two products.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {10 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::clamped_glu_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::clamped_glu_forward(context, inputs[0], inputs[1], attributes.as<ClampedGluOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId clamped_glu(ProgramBuilder& builder, ValueId gate, ValueId up, const kernels::ClampedGluOptions& options, std::string_view name) {
  static const ClampedGlu rule;
  return builder.append(rule, {gate, up}, options, name)[0];
}

}  // namespace millrace::runtime
