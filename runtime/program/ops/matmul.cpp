#include "kernels/matmul.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// The four products of a linear layer differ in which operand is transposed, in the result's dtype and in whether they add.
class Matmul : public OperationRule {
 public:
  explicit Matmul(kernels::MatmulOptions options) : options_(options) {}

  bool accumulates() const override { return options_.accumulate; }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    const auto inner = static_cast<double>(inputs[0].shape[options_.transpose_a ? 0 : 1]);
    return {2 * rules::elements(outputs[0]) * inner, rules::traffic(inputs, outputs, options_.accumulate)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&,
                            int threads) const override {
    return kernels::matmul_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype, outputs[0].dtype, options_, threads);
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch scratch) const override {
    kernels::matmul(stream, inputs[0], inputs[1], outputs[0], options_, scratch);
  }

 protected:
  /// Two matrices of one dtype whose axes `a` and `b` are the summed ones.
  static bool multiplies(std::span<const ValueType> inputs, std::size_t a, std::size_t b) {
    return inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[0].dtype == inputs[1].dtype &&
           inputs[0].shape.dimension(a) == inputs[1].shape.dimension(b);
  }

 private:
  kernels::MatmulOptions options_;
};

/// dx = dy · w: dy [T, N], w [N, K] → [T, K].
class LinearInputGradient final : public Matmul {
 public:
  LinearInputGradient() : Matmul({}) {}
  std::string_view name() const override { return "linear_input_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 1, 0), name(), inputs, "dy [T, N] and weight [N, K] of one dtype");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), inputs[1].shape.dimension(1)}}};
  }
};

/// dw += dyᵀ · x: dy [T, N], x [T, K], dw f32 [N, K].
class LinearWeightGradient final : public Matmul {
 public:
  LinearWeightGradient() : Matmul({.transpose_a = true, .accumulate = true}) {}
  std::string_view name() const override { return "linear_weight_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 0, 0), name(), inputs, "dy [T, N] and x [T, K] of one dtype");
    return {{kernels::DType::f32, {inputs[0].shape.dimension(1), inputs[1].shape.dimension(1)}}};
  }
};

class Linear final : public Matmul {
 public:
  Linear() : Matmul({.transpose_b = true}) {}
  std::string_view name() const override { return "linear"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 1, 1), name(), inputs, "x [T, K] and weight [N, K] of one dtype");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), inputs[1].shape.dimension(0)}}};
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

/// The same with the weight [K, N]. dx = dy · wᵀ.
class InputMajorInputGradient final : public Matmul {
 public:
  InputMajorInputGradient() : Matmul({.transpose_b = true}) {}
  std::string_view name() const override { return "linear_input_major_input_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 1, 1), name(), inputs, "dy [T, N] and weight [K, N] of one dtype");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), inputs[1].shape.dimension(0)}}};
  }
};

/// dw += xᵀ · dy: x [T, K], dy [T, N], dw f32 [K, N].
class InputMajorWeightGradient final : public Matmul {
 public:
  InputMajorWeightGradient() : Matmul({.transpose_a = true, .accumulate = true}) {}
  std::string_view name() const override { return "linear_input_major_weight_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 0, 0), name(), inputs, "x [T, K] and dy [T, N] of one dtype");
    return {{kernels::DType::f32, {inputs[0].shape.dimension(1), inputs[1].shape.dimension(1)}}};
  }
};

class LinearInputMajor final : public Matmul {
 public:
  LinearInputMajor() : Matmul({}) {}
  std::string_view name() const override { return "linear_input_major"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(multiplies(inputs, 1, 0), name(), inputs, "x [T, K] and weight [K, N] of one dtype");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), inputs[1].shape.dimension(1)}}};
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
