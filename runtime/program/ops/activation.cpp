#include "kernels/activation.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::Activation;

/// FLOPs per element of the activation alone, and of the activation with its slope.
constexpr double value_flops(Activation activation) {
  switch (activation) {
    case Activation::silu:
    case Activation::sigmoid:
    case Activation::quick_gelu:
      return 4;
    case Activation::gelu:
    case Activation::mish:
      return 9;
    case Activation::gelu_erf:
    case Activation::gelu_10:
    case Activation::laplace:
      return 16;
    case Activation::tanh:
      return 6;
    case Activation::sqrtsoftplus:
    case Activation::xielu:
      return 14;
    default:
      return 1;
  }
}
constexpr double slope_flops(Activation activation) { return 2 * value_flops(activation); }

/// Whether the operands are `matrices` matrices of one type [T, F], and behind them the learned numbers of the activation.
bool are_operands(std::span<const ValueType> inputs, std::size_t matrices, Activation activation) {
  if (inputs.size() != matrices + kernels::activation_parameters(activation) || !rules::is_matrix(inputs[0])) return false;
  const auto same = [&](const ValueType& type) { return type == inputs[0]; };
  return std::ranges::all_of(inputs.first(matrices), same) &&
         std::ranges::all_of(inputs.subspan(matrices), [](const ValueType& type) { return rules::is_vector(type, 1); });
}

/// Forward operands from `first` on, as the backward may read them.
void append_inputs(std::vector<ValueId>& operands, GradientBuilder& builder, std::size_t first) {
  for (std::size_t i = first; i < builder.forward().inputs.size(); ++i) operands.push_back(builder.input(i));
}

/// dy, x and for a gated activation up [T, F], learned numbers f32 [1]: adds into as many f32 [1].
class ActivationParameterGradient final : public OperationRule {
 public:
  ActivationParameterGradient(Activation activation, bool gated, std::string name)
      : activation_(activation), matrices_(gated ? 3 : 2), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_operands(inputs, matrices_, activation_), name(), inputs,
                   "dy, x and if gated up of one type [T, F], learned numbers f32 [1]");
    return {inputs.begin() + static_cast<std::ptrdiff_t>(matrices_), inputs.end()};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(value_flops(activation_) + 2) * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::activation_parameter_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::activation_parameter_gradient(context, activation_, inputs[0], inputs[1], matrices_ == 3 ? &inputs[2] : nullptr,
                                           inputs.subspan(matrices_), outputs);
  }

  /// Appends itself, if the activation has learned numbers.
  void append_to(GradientBuilder& builder) const {
    const std::size_t learned = kernels::activation_parameters(activation_);
    if (learned == 0) return;
    std::vector<ValueId> operands{builder.output_gradient(0)}, accumulators;
    append_inputs(operands, builder, 0);
    for (std::size_t i = 0; i < learned; ++i) accumulators.push_back(builder.accumulator(matrices_ - 1 + i));
    builder.append_accumulate(*this, std::move(operands), std::move(accumulators), {}, "dw");
  }

 private:
  Activation activation_;
  std::size_t matrices_;
  std::string name_;
};

/// dy, gate, up [T, F] → d_gate, d_up.
class GluInputGradient final : public OperationRule {
 public:
  GluInputGradient(Activation activation, std::string name) : activation_(activation), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "up"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_operands(inputs, 3, activation_), name(), inputs, "dy, gate and up of one type [T, F], learned numbers f32 [1]");
    return {inputs[0], inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(slope_flops(activation_) + 3) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::glu_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::glu_input_gradient(context, activation_, inputs[0], inputs[1], inputs[2], outputs[0], outputs[1], inputs.subspan(3));
  }

 private:
  Activation activation_;
  std::string name_;
};

class Glu final : public OperationRule {
 public:
  Glu(Activation activation, const std::string& name)
      : activation_(activation),
        name_(name),
        gradient_(activation, name + "_input_gradient"),
        parameter_gradient_(activation, true, name + "_parameter_gradient") {}
  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_operands(inputs, 2, activation_), name(), inputs, "gate and up of one type [T, F], learned numbers f32 [1]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!rules::wants_any(builder, 2)) return;
    std::vector<ValueId> operands{builder.output_gradient(0)};
    append_inputs(operands, builder, 0);
    rules::add_gradients(builder, builder.append(gradient_, std::move(operands), {}, "dx"));
  }

  void weight_gradient(GradientBuilder& builder) const override { parameter_gradient_.append_to(builder); }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(value_flops(activation_) + 1) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::glu_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::glu_forward(context, activation_, inputs[0], inputs[1], outputs[0], inputs.subspan(2));
  }

 private:
  Activation activation_;
  std::string name_;
  GluInputGradient gradient_;
  ActivationParameterGradient parameter_gradient_;
};

/// dy, x [T, F] → dx.
class ActivateInputGradient final : public OperationRule {
 public:
  ActivateInputGradient(Activation activation, std::string name) : activation_(activation), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_operands(inputs, 2, activation_), name(), inputs, "dy and x of one type [T, F], learned numbers f32 [1]");
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(slope_flops(activation_) + 1) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::activation_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::activation_input_gradient(context, activation_, inputs[0], inputs[1], outputs[0], inputs.subspan(2));
  }

 private:
  Activation activation_;
  std::string name_;
};

class Activate final : public OperationRule {
 public:
  Activate(Activation activation, const std::string& name)
      : activation_(activation),
        name_(name),
        gradient_(activation, name + "_input_gradient"),
        parameter_gradient_(activation, false, name + "_parameter_gradient") {}
  std::string_view name() const override { return name_; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_operands(inputs, 1, activation_), name(), inputs, "x [T, F], learned numbers f32 [1]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    std::vector<ValueId> operands{builder.output_gradient(0)};
    append_inputs(operands, builder, 0);
    builder.add_gradient(0, builder.append(gradient_, std::move(operands), {}, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override { parameter_gradient_.append_to(builder); }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {value_flops(activation_) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::activation_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::activation_forward(context, activation_, inputs[0], outputs[0], inputs.subspan(1));
  }

 private:
  Activation activation_;
  std::string name_;
  ActivateInputGradient gradient_;
  ActivationParameterGradient parameter_gradient_;
};

/// Names of the rules: for the gated ones those of Shazeer (arXiv 2002.05202), for the others the name of the activation.
std::string gated_name(Activation activation) {
  if (activation == Activation::silu) return "swiglu";
  if (activation == Activation::gelu) return "geglu";
  if (activation == Activation::relu) return "reglu";
  return std::string(kernels::to_string(activation)) + "_glu";
}

/// One rule per activation, in the order of the enum.
template <class Rule, class Name>
const Rule& rule_of(Activation activation, Name name) {
  static const auto rules = [&] {
    std::vector<std::unique_ptr<const Rule>> all;
    for (const Activation each : kernels::all_activations) all.push_back(std::make_unique<const Rule>(each, name(each)));
    return all;
  }();
  return *rules.at(static_cast<std::size_t>(activation));
}

const Activate& activate_rule(Activation activation) {
  return rule_of<Activate>(activation, [](Activation each) { return std::string(kernels::to_string(each)); });
}

const Glu& glu_rule(Activation activation) { return rule_of<Glu>(activation, gated_name); }

}  // namespace

ValueId activate(ProgramBuilder& builder, Activation activation, ValueId x, std::string_view name, std::span<const ValueId> parameters) {
  std::vector<ValueId> inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return builder.append(activate_rule(activation), std::move(inputs), {}, name)[0];
}

ValueId glu(ProgramBuilder& builder, Activation activation, ValueId gate, ValueId up, std::string_view name,
            std::span<const ValueId> parameters) {
  std::vector<ValueId> inputs{gate, up};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return builder.append(glu_rule(activation), std::move(inputs), {}, name)[0];
}

ValueId swiglu(ProgramBuilder& builder, ValueId gate, ValueId up, std::string_view name) {
  return glu(builder, Activation::silu, gate, up, name);
}

}  // namespace millrace::runtime
