#include "kernels/attention_temperature.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class AttentionTemperature final : public OperationRule {
 public:
  std::string_view name() const override { return "attention_temperature"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_indices(inputs[1], inputs[0].shape.dimension(0)), name(),
                   inputs, "x [T, N], positions i32 [T]");
    return {inputs[0]};
  }

  /// The gradient is multiplied by the same factors.
  void input_gradient(GradientBuilder& builder) const override { rules::add_own_gradient(builder, *this); }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::attention_temperature}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::attention_temperature(context, inputs[0], inputs[1], attributes.as<kernels::AttentionTemperatureOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId attention_temperature(ProgramBuilder& builder, ValueId x, ValueId positions, const kernels::AttentionTemperatureOptions& options,
                              std::string_view name) {
  static const AttentionTemperature rule;
  return builder.append(rule, {x, positions}, options, name)[0];
}

}  // namespace millrace::runtime
