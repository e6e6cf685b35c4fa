#include "kernels/matmul.hpp"

#include <array>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// What a rule's variants differ in: its weight may be packed, and it may add one operand more or a bias, not both.
struct Variant {
  bool packed = false;
  bool plus = false;
  bool bias = false;
};

/// The one object of a rule in a variant.
template <class Rule>
const Rule& variant(Variant which) {
  static const std::array<Rule, 6> rules = {Rule({false, false, false}), Rule({false, true, false}), Rule({false, false, true}),
                                            Rule({true, false, false}),  Rule({true, true, false}),  Rule({true, false, true})};
  return rules[(which.packed ? 3U : 0U) + (which.bias ? 2U : which.plus ? 1U : 0U)];
}

/// The products of a linear layer differ in which operand is transposed, in the result's dtype and in whether they add.
class Matmul : public OperationRule {
 public:
  explicit Matmul(kernels::MatmulOptions options) : options_(options) {}

  bool accumulates() const override { return options_.accumulate; }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    const auto inner = static_cast<double>(inputs[0].shape[options_.transpose_a ? 0 : 1]);
    const double added = options_.addend ? rules::elements(outputs[0]) : 0;
    return {2 * rules::elements(outputs[0]) * inner + added, rules::traffic(inputs, outputs, options_.accumulate)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&,
                            const kernels::Processor& processor) const override {
    return kernels::matmul_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype, outputs[0].dtype, options_, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::matmul}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch scratch) const override {
    kernels::matmul(context, inputs[0], inputs[1], outputs[0], options_, scratch, options_.addend ? &inputs[2] : nullptr);
  }

 protected:
  /// [M, N] of the product of two matrices of one dtype whose axes `a` and `b` are the summed ones; an addend must look like it.
  std::vector<ValueType> product(std::span<const ValueType> inputs, std::size_t a, std::size_t b, std::string_view wanted) const {
    const bool multiplies = inputs.size() == (options_.addend ? 3U : 2U) && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) &&
                            inputs[0].dtype == inputs[1].dtype && inputs[0].shape.dimension(a) == inputs[1].shape.dimension(b);
    rules::require(multiplies, name(), inputs, wanted);
    const ValueType result{inputs[0].dtype, {inputs[0].shape.dimension(1 - a), inputs[1].shape.dimension(1 - b)}};
    if (options_.bias)
      rules::require(rules::is_vector(inputs[2], result.shape.dimension(1)), name(), inputs, "a bias f32 [N]");
    else
      rules::require(!options_.addend || inputs[2] == result, name(), inputs, "an addend of the result's type");
    return {result};
  }

  kernels::MatmulOptions options_;
};

/// A product of activations with a weight, its operand 1, as one of six variants.
template <class Rule>
class WeightProduct : public Matmul {
 public:
  WeightProduct(bool transpose_b, Variant which)
      : Matmul({.transpose_b = transpose_b, .packed_b = which.packed, .addend = which.plus || which.bias, .bias = which.bias}) {}

  Packed packed() const override {
    if (options_.packed_b) return {};
    return {&variant<Rule>({true, options_.addend && !options_.bias, options_.bias}), 1,
            options_.transpose_b ? WeightForm::packed_turned : WeightForm::packed};
  }
  const OperationRule* plus() const override { return options_.addend ? nullptr : &variant<Rule>({options_.packed_b, true}); }
  const OperationRule* biased() const override { return options_.addend ? nullptr : &variant<Rule>({options_.packed_b, false, true}); }

 protected:
  std::string_view either(std::string_view plain, std::string_view plus, std::string_view bias = "") const {
    return options_.bias ? bias : options_.addend ? plus : plain;
  }
};

/// dw += aᵀ · b, summed over tokens: f32.
class WeightGradient : public Matmul {
 public:
  WeightGradient() : Matmul({.transpose_a = true, .accumulate = true}) {}

 protected:
  std::vector<ValueType> sum(std::span<const ValueType> inputs, std::string_view wanted) const {
    auto result = product(inputs, 0, 0, wanted);
    result[0].dtype = kernels::DType::f32;
    return result;
  }
};

/// dx = dy · w: dy [T, N], w [N, K] → [T, K].
class LinearInputGradient final : public WeightProduct<LinearInputGradient> {
 public:
  explicit LinearInputGradient(Variant which) : WeightProduct(false, which) {}
  std::string_view name() const override { return either("linear_input_gradient", "linear_input_gradient_plus"); }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return product(inputs, 1, 0, "dy [T, N] and weight [N, K] of one dtype");
  }
};

/// dw += dyᵀ · x: dy [T, N], x [T, K], dw f32 [N, K].
class LinearWeightGradient final : public WeightGradient {
 public:
  std::string_view name() const override { return "linear_weight_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return sum(inputs, "dy [T, N] and x [T, K] of one dtype");
  }
};

/// The weight [K, N]. dx = dy · wᵀ.
class InputMajorInputGradient final : public WeightProduct<InputMajorInputGradient> {
 public:
  explicit InputMajorInputGradient(Variant which) : WeightProduct(true, which) {}
  std::string_view name() const override { return either("linear_input_major_input_gradient", "linear_input_major_input_gradient_plus"); }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return product(inputs, 1, 1, "dy [T, N] and weight [K, N] of one dtype");
  }
};

/// dw += xᵀ · dy: x [T, K], dy [T, N], dw f32 [K, N].
class InputMajorWeightGradient final : public WeightGradient {
 public:
  std::string_view name() const override { return "linear_input_major_weight_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return sum(inputs, "x [T, K] and dy [T, N] of one dtype");
  }
};

/// What both linear layers share: dx through `Gradient`; the gradient of an addend is the result's, that of a bias its sum over tokens.
template <class Rule, class Gradient>
class Forward : public WeightProduct<Rule> {
 public:
  using WeightProduct<Rule>::WeightProduct;
  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0))
      builder.add_gradient(0, builder.append(variant<Gradient>({}), {builder.output_gradient(0), builder.input(1)}, {}, "dx")[0]);
    if (this->options_.addend && builder.wants(2)) builder.add_gradient(2, builder.output_gradient(0));
  }

 protected:
  void bias_gradient(GradientBuilder& builder) const {
    if (!this->options_.bias) return;
    builder.append_accumulate(bias_weight_gradient_rule(), {builder.output_gradient(0)}, {builder.accumulator(2)}, {}, "db");
  }
};

class Linear final : public Forward<Linear, LinearInputGradient> {
 public:
  explicit Linear(Variant which) : Forward(true, which) {}
  std::string_view name() const override { return either("linear", "linear_plus", "linear_bias"); }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return product(inputs, 1, 1, "x [T, K] and weight [N, K] of one dtype");
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const LinearWeightGradient rule;
    bias_gradient(builder);
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0)}, {builder.accumulator(1)}, {}, "dw");
  }
};

class LinearInputMajor final : public Forward<LinearInputMajor, InputMajorInputGradient> {
 public:
  explicit LinearInputMajor(Variant which) : Forward(false, which) {}
  std::string_view name() const override { return either("linear_input_major", "linear_input_major_plus", "linear_input_major_bias"); }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    return product(inputs, 1, 0, "x [T, K] and weight [K, N] of one dtype");
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const InputMajorWeightGradient rule;
    bias_gradient(builder);
    builder.append_accumulate(rule, {builder.input(0), builder.output_gradient(0)}, {builder.accumulator(1)}, {}, "dw");
  }
};

}  // namespace

ValueId linear(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name) {
  return builder.append(variant<Linear>({}), {x, weight}, {}, name)[0];
}

ValueId linear_input_major(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name) {
  return builder.append(variant<LinearInputMajor>({}), {x, weight}, {}, name)[0];
}

}  // namespace millrace::runtime
