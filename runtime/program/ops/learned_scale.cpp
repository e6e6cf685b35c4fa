#include "kernels/learned_scale.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// Whether `numbers` are the learned numbers of x, and `rest` says which of them multiplies each element if there are several.
bool are_scales(const ValueType& x, const ValueType& numbers, std::span<const ValueType> rest) {
  if (!rules::is_matrix(x) || numbers.dtype != kernels::DType::f32 || numbers.shape.rank() != 1) return false;
  return rest.empty() ? numbers.shape[0] == 1 : rest.size() == 1 && rest[0] == ValueType{kernels::DType::i32, x.shape};
}

const kernels::Tensor* which_of(std::span<const kernels::Tensor> inputs) { return inputs.size() == 3 ? &inputs[2] : nullptr; }

/// The number of numbers, which does not follow from the operands' shapes.
struct LearnedScaleOptions {
  std::int64_t numbers = 1;

  static constexpr auto members() { return std::tuple(kernels::member("numbers", &LearnedScaleOptions::numbers)); }
};

/// dy, x [T, N] and perhaps which i32 [T, N]: adds into f32 [E].
class LearnedScaleWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "learned_scale_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const ValueType numbers{kernels::DType::f32, {attributes.as<LearnedScaleOptions>().numbers}};
    rules::require(inputs.size() >= 2 && inputs[0] == inputs[1] && are_scales(inputs[0], numbers, inputs.subspan(2)), name(), inputs,
                   "dy and x of one type [T, N] and, with several numbers, which i32 [T, N]");
    return {numbers};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::learned_scale_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::learned_scale_weight_gradient(context, inputs[0], inputs[1], which_of(inputs), outputs[0]);
  }
};

/// x [T, N], numbers f32 [E] and perhaps which i32 [T, N] → [T, N].
class LearnedScale final : public OperationRule {
 public:
  std::string_view name() const override { return "learned_scale"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() >= 2 && are_scales(inputs[0], inputs[1], inputs.subspan(2)), name(), inputs,
                   "x [T, N], a number f32 [1], or numbers f32 [E] and which i32 [T, N]");
    return {inputs[0]};
  }

  /// The gradient is multiplied by the same numbers.
  void input_gradient(GradientBuilder& builder) const override { rules::add_own_gradient(builder, *this); }

  /// A number may be a constant of the checkpoint that training leaves as it is.
  void weight_gradient(GradientBuilder& builder) const override {
    static const LearnedScaleWeightGradient rule;
    const Value& numbers = builder.value(builder.forward().inputs[1]);
    if (!numbers.trained) return;
    std::vector<ValueId> operands{builder.output_gradient(0), builder.input(0)};
    if (builder.forward().inputs.size() == 3) operands.push_back(builder.input(2));
    builder.append_accumulate(rule, std::move(operands), {builder.accumulator(1)}, LearnedScaleOptions{numbers.type.shape[0]}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::learned_scale}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::learned_scale(context, inputs[0], inputs[1], which_of(inputs), outputs[0]);
  }
};

}  // namespace

ValueId learned_scale(ProgramBuilder& builder, ValueId x, ValueId numbers, std::string_view name, ValueId which) {
  static const LearnedScale rule;
  std::vector<ValueId> inputs{x, numbers};
  if (which.valid()) inputs.push_back(which);
  return builder.append(rule, std::move(inputs), {}, name)[0];
}

}  // namespace millrace::runtime
