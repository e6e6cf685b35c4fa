#include "kernels/matmul.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// The products of a linear layer. They differ in the transposed operand, in the result's dtype, and in whether they accumulate.
class Matmul : public OperationRule {
 public:
  explicit Matmul(kernels::MatmulOptions options) : options_(options) {}

  bool accumulates() const override { return options_.accumulate; }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto inner = static_cast<double>(inputs[0].shape[options_.transpose_a ? 0 : 1]);
    const double added = attributes.epilogue.add == Epilogue::Add::none ? 0 : rules::elements(outputs[0]);
    return {2 * rules::elements(outputs[0]) * inner + added, rules::traffic(inputs, outputs, options_.accumulate)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return kernels::matmul_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype, outputs[0].dtype, options(attributes.epilogue),
                                         processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::matmul}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto with_epilogue = options(attributes.epilogue);
    kernels::matmul(context, inputs[0], inputs[1], outputs[0], with_epilogue, scratch, with_epilogue.addend ? &inputs[2] : nullptr);
  }

 protected:
  /// The shape [M, N] of the product of two matrices of one dtype, which is summed over the axes `a` and `b`. An addend must have
  /// the same type.
  std::vector<ValueType> product(std::span<const ValueType> inputs, const Attributes& attributes, std::size_t a, std::size_t b,
                                 std::string_view expected) const {
    const auto add = attributes.epilogue.add;
    const bool multiplies = inputs.size() == (add == Epilogue::Add::none ? 2U : 3U) && rules::is_matrix(inputs[0]) &&
                            rules::is_matrix(inputs[1]) && inputs[0].dtype == inputs[1].dtype &&
                            inputs[0].shape.dimension(a) == inputs[1].shape.dimension(b);
    rules::require(multiplies, name(), inputs, expected);
    const ValueType result{inputs[0].dtype, {inputs[0].shape.dimension(1 - a), inputs[1].shape.dimension(1 - b)}};
    if (add == Epilogue::Add::bias)
      rules::require(rules::is_vector(inputs[2], result.shape.dimension(1)), name(), inputs, "a bias f32 [N]");
    else if (add == Epilogue::Add::addend)
      rules::require(inputs[2] == result, name(), inputs, "an addend of the result's type");
    return {result};
  }

  kernels::MatmulOptions options(const Epilogue& epilogue) const {
    auto options = options_;
    options.packed_b = epilogue.packed;
    options.addend = epilogue.add != Epilogue::Add::none;
    options.bias = epilogue.add == Epilogue::Add::bias;
    return options;
  }

  kernels::MatmulOptions options_;
};

/// A product of activations with a weight, its operand 1.
class WeightProduct : public Matmul {
 public:
  explicit WeightProduct(bool transpose_b) : Matmul({.transpose_b = transpose_b}) {}

  Epilogues epilogues() const override {
    return {.addend = true,
            .bias = true,
            .packed = Epilogues::Weight{1, options_.transpose_b ? WeightForm::packed_turned : WeightForm::packed}};
  }
};

/// dw += aᵀ · b, summed over tokens: f32.
class WeightGradient : public Matmul {
 public:
  WeightGradient() : Matmul({.transpose_a = true, .accumulate = true}) {}

 protected:
  std::vector<ValueType> sum(std::span<const ValueType> inputs, std::string_view expected) const {
    auto result = product(inputs, {}, 0, 0, expected);
    result[0].dtype = kernels::DType::f32;
    return result;
  }
};

/// dx = dy · w: dy [T, N], w [N, K] → [T, K].
class LinearInputGradient final : public WeightProduct {
 public:
  LinearInputGradient() : WeightProduct(false) {}
  std::string_view name() const override { return "linear_input_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    return product(inputs, attributes, 1, 0, "dy [T, N] and weight [N, K] of one dtype");
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
class InputMajorInputGradient final : public WeightProduct {
 public:
  InputMajorInputGradient() : WeightProduct(true) {}
  std::string_view name() const override { return "linear_input_major_input_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    return product(inputs, attributes, 1, 1, "dy [T, N] and weight [K, N] of one dtype");
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

class Linear final : public WeightProduct {
 public:
  Linear() : WeightProduct(true) {}
  std::string_view name() const override { return "linear"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    return product(inputs, attributes, 1, 1, "x [T, K] and weight [N, K] of one dtype");
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const LinearInputGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(1)}, {}, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const LinearWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0)}, {builder.accumulator(1)}, {}, "dw");
  }
};

class LinearInputMajor final : public WeightProduct {
 public:
  LinearInputMajor() : WeightProduct(false) {}
  std::string_view name() const override { return "linear_input_major"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    return product(inputs, attributes, 1, 0, "x [T, K] and weight [K, N] of one dtype");
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const InputMajorInputGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(1)}, {}, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const InputMajorWeightGradient rule;
    builder.append_accumulate(rule, {builder.input(0), builder.output_gradient(0)}, {builder.accumulator(1)}, {}, "dw");
  }
};

}  // namespace

ValueId linear(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name) {
  static const Linear rule;
  return builder.append(rule, {x, weight}, {}, name)[0];
}

ValueId linear_input_major(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name) {
  static const LinearInputMajor rule;
  return builder.append(rule, {x, weight}, {}, name)[0];
}

}  // namespace millrace::runtime
