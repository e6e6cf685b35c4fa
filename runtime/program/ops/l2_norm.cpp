#include "kernels/l2_norm.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::L2NormOptions;

bool are_vectors(const ValueType& x, const L2NormOptions& options) {
  return rules::is_matrix(x) && options.width > 0 && x.shape[1] % options.width == 0;
}

/// dy, x [T, n·D], r f32 [T, n] → dx [T, n·D].
class L2NormInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "l2_norm_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<L2NormOptions>();
    rules::require(inputs.size() == 3 && are_vectors(inputs[1], options) && inputs[0] == inputs[1] &&
                       inputs[2] == rules::scales_of(inputs[1], options.width),
                   name(), inputs, fmt::format("dy and x [T, n * {}], r f32 [T, n]", options.width));
    return {inputs[0]};
  }

  /// Per element: the product with x and its sum, then r·(dy − x·c).
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {5 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::l2_norm_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto width = attributes.as<L2NormOptions>().width;
    kernels::l2_norm_input_gradient(context, rules::vectors(inputs[0], width), rules::vectors(inputs[1], width), rules::numbers(inputs[2]),
                                    rules::vectors(outputs[0], width));
  }
};

class L2Norm final : public OperationRule {
 public:
  std::string_view name() const override { return "l2_norm"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "r"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<L2NormOptions>();
    rules::require(inputs.size() == 1 && are_vectors(inputs[0], options), name(), inputs, fmt::format("x [T, n * {}]", options.width));
    return {inputs[0], rules::scales_of(inputs[0], options.width)};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const L2NormInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(
        0, builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.output(1)}, builder.forward().attributes, "dx")[0]);
  }

  /// Per element: its square and the sum, then x·r.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::l2_norm_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<L2NormOptions>();
    kernels::l2_norm_forward(context, rules::vectors(inputs[0], options.width), options, rules::vectors(outputs[0], options.width),
                             rules::numbers(outputs[1]));
  }
};

}  // namespace

ValueId l2_norm(ProgramBuilder& builder, ValueId x, const kernels::L2NormOptions& options, std::string_view name) {
  static const L2Norm rule;
  return builder.append(rule, {x}, options, name)[0];
}

}  // namespace millrace::runtime
