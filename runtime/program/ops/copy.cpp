#include "kernels/elementwise.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class Copy final : public OperationRule {
 public:
  std::string_view name() const override { return "copy"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1, name(), inputs, "one operand");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.add_gradient(0, builder.output_gradient(0));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::convert}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::convert(context, inputs[0], outputs[0]);
  }
};

}  // namespace

const OperationRule& copy_rule() {
  static const Copy rule;
  return rule;
}

ValueId copy(ProgramBuilder& builder, ValueId x, std::string_view name) { return builder.append(copy_rule(), {x}, {}, name)[0]; }

}  // namespace millrace::runtime
