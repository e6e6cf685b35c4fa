#include "kernels/rms_norm.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

bool is_vector(const ValueType& type, const kernels::Dimension& dimension) {
  return type.dtype == kernels::DType::f32 && type.shape.rank() == 1 && type.shape.dimension(0) == dimension;
}

/// dy, x [T, D], weight f32 [D], r f32 [T] → dx [T, D].
class RmsNormInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 4 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] &&
                       is_vector(inputs[2], inputs[1].shape.dimension(1)) && is_vector(inputs[3], inputs[1].shape.dimension(0)),
                   name(), inputs, "dy and x [T, D], weight f32 [D], r f32 [T]");
    return {inputs[0]};
  }

  /// An element: dy·w, its product with x and their sum, then r·(g − x·c).
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {6 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::rms_norm_input_gradient(stream, inputs[0], inputs[1], inputs[2], inputs[3], outputs[0]);
  }
};

/// dy, x [T, D], r f32 [T]: adds into f32 [D].
class RmsNormWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(
        inputs.size() == 3 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] && is_vector(inputs[2], inputs[1].shape.dimension(0)),
        name(), inputs, "dy and x [T, D], r f32 [T]");
    return {{kernels::DType::f32, {inputs[0].shape.dimension(1)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes&, int threads) const override {
    return kernels::rms_norm_weight_gradient_scratch_bytes(inputs[1].shape, threads);
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch scratch) const override {
    kernels::rms_norm_weight_gradient(stream, inputs[0], inputs[1], inputs[2], outputs[0], scratch);
  }
};

class RmsNorm final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "r"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && is_vector(inputs[1], inputs[0].shape.dimension(1)), name(), inputs,
                   "x [T, D] and weight f32 [D]");
    return {inputs[0], {kernels::DType::f32, {inputs[0].shape.dimension(0)}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const RmsNormInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(
        0, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.output(1)}, {}, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const RmsNormWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.output(1)}, {builder.accumulator(1)}, {}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {4 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  void run(const kernels::Stream& stream, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::rms_norm_forward(stream, inputs[0], inputs[1], static_cast<float>(attributes.real("epsilon")), outputs[0], outputs[1]);
  }
};

}  // namespace

ValueId rms_norm(ProgramBuilder& builder, ValueId x, ValueId weight, float epsilon, std::string_view name) {
  static const RmsNorm rule;
  return builder.append(rule, {x, weight}, {{"epsilon", double{epsilon}}}, name)[0];
}

}  // namespace millrace::runtime
