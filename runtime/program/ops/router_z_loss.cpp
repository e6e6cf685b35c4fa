#include "kernels/router_z_loss.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// logits [T, E], the term's scale f32 [1] → d_logits [T, E].
class RouterZLossInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "router_z_loss_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_vector(inputs[1], 1), name(), inputs,
                   "logits [T, E], scale f32 [1]");
    return {inputs[0]};
  }

  /// Per logit: the difference to the largest one, its exponential twice, the sum and a product.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {6 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::router_z_loss_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::router_z_loss_input_gradient(context, inputs[0], inputs[1], outputs[0]);
  }
};

class RouterZLoss final : public OperationRule {
 public:
  std::string_view name() const override { return "router_z_loss"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "logits [T, E]");
    return {{kernels::DType::f64, {1}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const RouterZLossInputGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.input(0), builder.loss_scale()}, {}, "dx")[0]);
  }

  /// Per logit: the difference to the largest one, its exponential, the sum.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::router_z_loss}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::router_z_loss(context, inputs[0], outputs[0]);
  }
};

}  // namespace

ValueId router_z_loss(ProgramBuilder& builder, ValueId logits, std::string_view name) {
  static const RouterZLoss rule;
  return builder.append(rule, {logits}, {}, name)[0];
}

}  // namespace millrace::runtime
