#include "kernels/activation.hpp"

#include <array>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::Activation;

/// FLOPs an element of the activation, and of it with its slope.
constexpr double value_flops(Activation activation) { return activation == Activation::silu ? 4 : activation == Activation::gelu ? 9 : 1; }
constexpr double slope_flops(Activation activation) { return 2 * value_flops(activation); }

/// dy, gate, up [T, F] → d_gate, d_up.
class GluInputGradient final : public OperationRule {
 public:
  GluInputGradient(Activation activation, std::string_view name) : activation_(activation), name_(name) {}
  std::string_view name() const override { return name_; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "up"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] && inputs[0] == inputs[2], name(), inputs,
                   "dy, gate and up of one type [T, F]");
    return {inputs[0], inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(slope_flops(activation_) + 3) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::glu_input_gradient(context, activation_, inputs[0], inputs[1], inputs[2], outputs[0], outputs[1]);
  }

 private:
  Activation activation_;
  std::string_view name_;
};

class Glu final : public OperationRule {
 public:
  Glu(Activation activation, std::string_view name, std::string_view gradient_name)
      : activation_(activation), name_(name), gradient_(activation, gradient_name) {}
  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1], name(), inputs,
                   "gate and up of one type [T, F]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0) && !builder.wants(1)) return;
    const auto gradients = builder.append(gradient_, {builder.output_gradient(0), builder.input(0), builder.input(1)}, {}, "dx");
    for (std::size_t i = 0; i < 2; ++i)
      if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(value_flops(activation_) + 1) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::glu_forward(context, activation_, inputs[0], inputs[1], outputs[0]);
  }

 private:
  Activation activation_;
  std::string_view name_;
  GluInputGradient gradient_;
};

/// dy, x [T, F] → dx.
class ActivateInputGradient final : public OperationRule {
 public:
  ActivateInputGradient(Activation activation, std::string_view name) : activation_(activation), name_(name) {}
  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1], name(), inputs,
                   "dy and x of one type [T, F]");
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(slope_flops(activation_) + 1) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::activation_input_gradient(context, activation_, inputs[0], inputs[1], outputs[0]);
  }

 private:
  Activation activation_;
  std::string_view name_;
};

class Activate final : public OperationRule {
 public:
  Activate(Activation activation, std::string_view gradient_name) : activation_(activation), gradient_(activation, gradient_name) {}
  std::string_view name() const override { return kernels::to_string(activation_); }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, F]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.add_gradient(0, builder.append(gradient_, {builder.output_gradient(0), builder.input(0)}, {}, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {value_flops(activation_) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::activation_forward(context, activation_, inputs[0], outputs[0]);
  }

 private:
  Activation activation_;
  ActivateInputGradient gradient_;
};

/// One rule an activation, in the order of the enum.
const Activate& activate_rule(Activation activation) {
  static const std::array rules = {Activate(Activation::silu, "silu_input_gradient"), Activate(Activation::gelu, "gelu_input_gradient"),
                                   Activate(Activation::relu, "relu_input_gradient")};
  return rules.at(static_cast<std::size_t>(activation));
}

const Glu& glu_rule(Activation activation) {
  static const std::array rules = {Glu(Activation::silu, "swiglu", "swiglu_input_gradient"),
                                   Glu(Activation::gelu, "geglu", "geglu_input_gradient"),
                                   Glu(Activation::relu, "reglu", "reglu_input_gradient")};
  return rules.at(static_cast<std::size_t>(activation));
}

}  // namespace

ValueId activate(ProgramBuilder& builder, Activation activation, ValueId x, std::string_view name) {
  return builder.append(activate_rule(activation), {x}, {}, name)[0];
}

ValueId glu(ProgramBuilder& builder, Activation activation, ValueId gate, ValueId up, std::string_view name) {
  return builder.append(glu_rule(activation), {gate, up}, {}, name)[0];
}

ValueId swiglu(ProgramBuilder& builder, ValueId gate, ValueId up, std::string_view name) {
  return glu(builder, Activation::silu, gate, up, name);
}

}  // namespace millrace::runtime
