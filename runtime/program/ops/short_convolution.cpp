#include "kernels/short_convolution.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::ShortConvolutionOptions;

constexpr std::string_view operands = "x [T, C], weight [C, 1, W] of f32 or x's dtype, segments i32 [T], T a multiple of the sequence";

bool are_operands(const ValueType& x, const ValueType& weight, const ValueType& segments, const ShortConvolutionOptions& options) {
  const kernels::Shape& shape = weight.shape;
  return rules::is_matrix(x) && (weight.dtype == kernels::DType::f32 || weight.dtype == x.dtype) &&
         (shape.rank() == 2 || (shape.rank() == 3 && shape[1] == 1)) && shape.dimension(0) == x.shape.dimension(1) &&
         shape[shape.rank() - 1] >= 1 && rules::is_indices(segments, x.shape.dimension(0)) && x.shape[0] % options.sequence == 0;
}
double taps(const ValueType& weight) { return static_cast<double>(weight.shape[weight.shape.rank() - 1]); }
/// FLOPs per element for the sum, and for SiLU or its slope, if there is one.
double flops(const ValueType& weight, const Attributes& attributes, double silu) {
  return 2 * taps(weight) + (attributes.as<ShortConvolutionOptions>().silu ? silu : 0);
}

/// dy, x, weight, segments → dx.
class ShortConvolutionInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "short_convolution_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 4 && inputs[0] == inputs[1] &&
                       are_operands(inputs[1], inputs[2], inputs[3], attributes.as<ShortConvolutionOptions>()),
                   name(), inputs, fmt::format("dy of x's type, {}", operands));
    return {inputs[1]};
  }

  /// With SiLU also the sum again, and dy times its slope.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs[2], attributes, 2 * taps(inputs[2]) + 9) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::short_convolution_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::short_convolution_input_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], attributes.as<ShortConvolutionOptions>(),
                                              outputs[0]);
  }
};

/// dy, x, weight, segments: adds into f32 of weight's shape.
class ShortConvolutionWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "short_convolution_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 4 && inputs[0] == inputs[1] &&
                       are_operands(inputs[1], inputs[2], inputs[3], attributes.as<ShortConvolutionOptions>()),
                   name(), inputs, fmt::format("dy of x's type, {}", operands));
    return {{kernels::DType::f32, inputs[2].shape}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs[2], attributes, 2 * taps(inputs[2]) + 9) * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::short_convolution_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::short_convolution_weight_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3],
                                               attributes.as<ShortConvolutionOptions>(), outputs[0]);
  }
};

class ShortConvolution final : public OperationRule {
 public:
  std::string_view name() const override { return "short_convolution"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 3 && are_operands(inputs[0], inputs[1], inputs[2], attributes.as<ShortConvolutionOptions>()), name(),
                   inputs, operands);
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const ShortConvolutionInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.input(2)},
                                           builder.forward().attributes, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const ShortConvolutionWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.input(2)},
                              {builder.accumulator(1)}, builder.forward().attributes, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs[1], attributes, 4) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::short_convolution_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::short_convolution_forward(context, inputs[0], inputs[1], inputs[2], attributes.as<ShortConvolutionOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId short_convolution(ProgramBuilder& builder, ValueId x, ValueId weight, ValueId segments,
                          const kernels::ShortConvolutionOptions& options, std::string_view name) {
  static const ShortConvolution rule;
  auto here = options;
  here.sequence = builder.options().sequence;
  here.one_segment = builder.options().one_segment;
  return builder.append(rule, {x, weight, segments}, here, name)[0];
}

}  // namespace millrace::runtime
