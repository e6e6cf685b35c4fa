#include "kernels/rope.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

const OperationRule& rope_rule();

kernels::RopeOptions options_of(const Attributes& attributes) {
  return {static_cast<int>(attributes.integer("direction")), static_cast<float>(attributes.real("factor")),
          attributes.integer("interleaved") != 0};
}
Attributes attributes_of(kernels::RopeOptions options) {
  return {{"direction", std::int64_t{options.direction}},
          {"factor", double{options.factor}},
          {"interleaved", std::int64_t{options.interleaved}}};
}

/// Attribute `direction`: 1 rotates, −1 rotates back, which is the gradient.
class Rope final : public OperationRule {
 public:
  std::string_view name() const override { return "rope"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && inputs[1].dtype == kernels::DType::i32 &&
                       inputs[1].shape.rank() == 1 && inputs[1].shape.dimension(0) == inputs[0].shape.dimension(0) &&
                       inputs[2].dtype == kernels::DType::f32 && inputs[2].shape.rank() == 1 && inputs[2].shape[0] > 0 &&
                       inputs[0].shape[1] % (2 * inputs[2].shape[0]) == 0,
                   name(), inputs, "x [T, heads * head_dim], positions i32 [T], inverse frequencies f32 [head_dim / 2]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    auto back = options_of(builder.forward().attributes);
    back.direction = -back.direction;
    builder.add_gradient(
        0, builder.append(rope_rule(), {builder.output_gradient(0), builder.input(1), builder.input(2)}, attributes_of(back), "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::rope}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto head_dim = 2 * inputs[2].shape[0];
    kernels::rope(context, rules::heads(inputs[0], head_dim), inputs[1], inputs[2], options_of(attributes),
                  rules::heads(outputs[0], head_dim));
  }
};

const OperationRule& rope_rule() {
  static const Rope rule;
  return rule;
}

}  // namespace

ValueId rope(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_frequencies, const RopeForm& form,
             std::string_view name) {
  return builder.append(rope_rule(), {x, positions, inverse_frequencies}, attributes_of({1, form.factor, form.interleaved}), name)[0];
}

}  // namespace millrace::runtime
