#include "kernels/swiglu.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// dy, gate, up [T, F] → d_gate, d_up.
class SwigluInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "swiglu_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "up"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] && inputs[0] == inputs[2], name(), inputs,
                   "dy, gate and up of one type [T, F]");
    return {inputs[0], inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {10 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::swiglu_input_gradient(stream, inputs[0], inputs[1], inputs[2], outputs[0], outputs[1]);
  }
};

class Swiglu final : public OperationRule {
 public:
  std::string_view name() const override { return "swiglu"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1], name(), inputs,
                   "gate and up of one type [T, F]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SwigluInputGradient rule;
    if (!builder.wants(0) && !builder.wants(1)) return;
    const auto gradients = builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1)}, {}, "dx");
    for (std::size_t i = 0; i < 2; ++i)
      if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {5 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::swiglu_forward(stream, inputs[0], inputs[1], outputs[0]);
  }
};

}  // namespace

ValueId swiglu(ProgramBuilder& builder, ValueId gate, ValueId up, std::string_view name) {
  static const Swiglu rule;
  return builder.append(rule, {gate, up}, {}, name)[0];
}

}  // namespace millrace::runtime
