#include "kernels/elementwise.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class Scale final : public OperationRule {
 public:
  std::string_view name() const override { return "scale"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, D]");
    return {inputs[0]};
  }

  /// The gradient is scaled by the same factor.
  void input_gradient(GradientBuilder& builder) const override { rules::add_own_gradient(builder, *this); }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::scale}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::scale(context, inputs[0], attributes.as<kernels::ScaleOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId scale(ProgramBuilder& builder, ValueId x, double factor, std::string_view name) {
  static const Scale rule;
  auto rounded = static_cast<float>(factor);
  if (builder.type(x).dtype == kernels::DType::bf16) rounded = kernels::to_float(kernels::to_bfloat16(rounded));
  return builder.append(rule, {x}, kernels::ScaleOptions{rounded}, name)[0];
}

}  // namespace millrace::runtime
