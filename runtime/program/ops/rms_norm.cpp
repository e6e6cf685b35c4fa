#include "kernels/rms_norm.hpp"

#include <fmt/format.h>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view weight_shapes = "weight f32 [D] or [n, D]";

/// Whether all of the n vectors of a token have one weight [D], or each its own [n, D].
bool is_weight(const ValueType& type, const ValueType& x) {
  const kernels::Shape& shape = type.shape;
  if (type.dtype != kernels::DType::f32 || shape.rank() < 1 || shape.rank() > 2 || shape.elements() == 0) return false;
  return shape.rank() == 1 ? x.shape[1] % shape[0] == 0 : x.shape[1] == shape[0] * shape[1];
}
/// D of the weight.
std::int64_t vector_of(const kernels::Shape& weight) { return weight[weight.rank() - 1]; }

/// dy, x [T, n·D], weight f32 [D] or [n, D], r f32 [T, n] → dx [T, n·D].
class RmsNormInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm_input_gradient"; }
  Epilogues epilogues() const override { return {.addend = true}; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == (adds(attributes) ? 5U : 4U) && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] &&
                       is_weight(inputs[2], inputs[1]) && inputs[3] == rules::scales_of(inputs[1], vector_of(inputs[2].shape)) &&
                       (!adds(attributes) || inputs[4] == inputs[0]),
                   name(), inputs, fmt::format("dy and x [T, n * D], {}, r f32 [T, n] (and an addend of dy's type)", weight_shapes));
    return {inputs[0]};
  }

  /// Per element: dy·w, its product with x and their sum, then r·(g − x·c).
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {(adds(attributes) ? 7 : 6) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::rms_norm_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto width = vector_of(inputs[2].shape);
    kernels::Tensor addend;
    if (adds(attributes)) addend = rules::vectors(inputs[4], width);
    kernels::rms_norm_input_gradient(context, rules::vectors(inputs[0], width), rules::vectors(inputs[1], width), inputs[2],
                                     rules::numbers(inputs[3]), attributes.as<kernels::RmsNormOptions>(), rules::vectors(outputs[0], width),
                                     adds(attributes) ? &addend : nullptr);
  }

 private:
  static bool adds(const Attributes& attributes) { return attributes.epilogue.add == Epilogue::Add::addend; }
};

/// The shape of the gradient, which does not follow from its operands' shapes.
struct RmsNormGradientOptions {
  bool each = false;  // every vector of a token has a weight of its own

  static constexpr auto members() { return std::tuple(kernels::member("each", &RmsNormGradientOptions::each)); }
};

/// dy, x [T, n·D], r f32 [T, n]: adds into f32 [D] or [n, D].
class RmsNormWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && inputs[0] == inputs[1] && inputs[2].shape.rank() == 2 &&
                       inputs[2].shape[1] > 0 && inputs[1].shape[1] % inputs[2].shape[1] == 0 &&
                       inputs[2] == rules::scales_of(inputs[1], inputs[1].shape[1] / inputs[2].shape[1]),
                   name(), inputs, "dy and x [T, n * D], r f32 [T, n]");
    const std::int64_t vectors = inputs[2].shape[1], width = inputs[1].shape[1] / vectors;
    if (attributes.as<RmsNormGradientOptions>().each) return {{kernels::DType::f32, {vectors, width}}};
    return {{kernels::DType::f32, {width}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::rms_norm_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    const auto width = vector_of(outputs[0].shape);
    kernels::rms_norm_weight_gradient(context, rules::vectors(inputs[0], width), rules::vectors(inputs[1], width),
                                      rules::numbers(inputs[2]), outputs[0]);
  }
};

class RmsNorm final : public OperationRule {
 public:
  std::string_view name() const override { return "rms_norm"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "r"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && is_weight(inputs[1], inputs[0]), name(), inputs,
                   fmt::format("x [T, n * D] and {}", weight_shapes));
    return {inputs[0], rules::scales_of(inputs[0], vector_of(inputs[1].shape))};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const RmsNormInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1), builder.output(1)},
                                           builder.forward().attributes, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const RmsNormWeightGradient rule;
    if (builder.value(builder.forward().inputs[1]).role != Role::parameter) return;  // the weights of rms_norm_without_weight
    const bool each = builder.type(builder.input(1)).shape.rank() == 2;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.output(1)}, {builder.accumulator(1)},
                              RmsNormGradientOptions{each}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {4 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::rms_norm_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto width = vector_of(inputs[1].shape);
    kernels::rms_norm_forward(context, rules::vectors(inputs[0], width), inputs[1], attributes.as<kernels::RmsNormOptions>(),
                              rules::vectors(outputs[0], width), rules::numbers(outputs[1]));
  }
};

}  // namespace

ValueId rms_norm(ProgramBuilder& builder, ValueId x, ValueId weight, const kernels::RmsNormOptions& options, std::string_view name) {
  static const RmsNorm rule;
  return builder.append(rule, {x, weight}, options, name)[0];
}

ValueId rms_norm_without_weight(ProgramBuilder& builder, ValueId x, std::int64_t width, const kernels::RmsNormOptions& options,
                                std::string_view name) {
  const auto ones = builder.constant(fmt::format("ones.{}", width), std::vector<float>(static_cast<std::size_t>(width), 1.0F));
  auto plain = options;
  plain.offset = 0;
  return rms_norm(builder, x, ones, plain, name);
}

}  // namespace millrace::runtime
