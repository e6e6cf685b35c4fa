#include "kernels/rope.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

const OperationRule& rope_rule();

/// Direction 1 rotates, −1 rotates back, which is the gradient.
class Rope final : public OperationRule {
 public:
  std::string_view name() const override { return "rope"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t unrotated = attributes.as<kernels::RopeOptions>().unrotated;
    rules::require(unrotated >= 0 && inputs.size() == 3 && rules::is_matrix(inputs[0]) &&
                       rules::is_indices(inputs[1], inputs[0].shape.dimension(0)) && inputs[2].dtype == kernels::DType::f32 &&
                       inputs[2].shape.rank() == 1 && inputs[2].shape[0] > 0 &&
                       inputs[0].shape[1] % (2 * inputs[2].shape[0] + unrotated) == 0,
                   name(), inputs, "x [T, heads * head_dim], positions i32 [T], inverse frequencies f32 [(head_dim - unrotated) / 2]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    auto back = builder.forward().attributes.as<kernels::RopeOptions>();
    back.direction = -back.direction;
    builder.add_gradient(0, builder.append(rope_rule(), {builder.output_gradient(0), builder.input(1), builder.input(2)}, back, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::rope}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<kernels::RopeOptions>();
    const auto head_dim = 2 * inputs[2].shape[0] + options.unrotated;
    kernels::rope(context, rules::heads(inputs[0], head_dim), inputs[1], inputs[2], options, rules::heads(outputs[0], head_dim));
  }
};

const OperationRule& rope_rule() {
  static const Rope rule;
  return rule;
}

}  // namespace

ValueId rope(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_frequencies, const kernels::RopeOptions& options,
             std::string_view name) {
  return builder.append(rope_rule(), {x, positions, inverse_frequencies}, options, name)[0];
}

}  // namespace millrace::runtime
