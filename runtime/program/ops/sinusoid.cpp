#include "kernels/sinusoid.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class AddSinusoid final : public OperationRule {
 public:
  std::string_view name() const override { return "add_sinusoid"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && rules::is_matrix(inputs[0]) && rules::is_indices(inputs[1], inputs[0].shape.dimension(0)) &&
                       inputs[2].dtype == kernels::DType::f32 && inputs[2].shape.rank() == 1 &&
                       inputs[0].shape[1] == 2 * inputs[2].shape[0],
                   name(), inputs, "x [T, D], positions i32 [T], inverse timescales f32 [D / 2]");
    return {inputs[0]};
  }

  /// The added positions do not depend on x.
  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.add_gradient(0, builder.output_gradient(0));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::add_sinusoid}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::add_sinusoid(context, inputs[0], inputs[1], inputs[2], outputs[0]);
  }
};

}  // namespace

ValueId add_sinusoid(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_timescales, std::string_view name) {
  static const AddSinusoid rule;
  return builder.append(rule, {x, positions, inverse_timescales}, {}, name)[0];
}

}  // namespace millrace::runtime
