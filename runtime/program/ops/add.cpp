#include "kernels/elementwise.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class Add final : public OperationRule {
 public:
  std::string_view name() const override { return "add"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && inputs[0] == inputs[1] && rules::is_matrix(inputs[0]), name(), inputs,
                   "a and b of one type [T, D]");
    return {inputs[0]};
  }

  /// Both gradients are the result's: nothing is computed.
  void input_gradient(GradientBuilder& builder) const override {
    for (std::size_t i = 0; i < 2; ++i)
      if (builder.wants(i)) builder.add_gradient(i, builder.output_gradient(0));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(outputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::add}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::add(context, inputs[0], inputs[1], outputs[0]);
  }
};

}  // namespace

const OperationRule& add_rule() {
  static const Add rule;
  return rule;
}

ValueId add(ProgramBuilder& builder, ValueId a, ValueId b, std::string_view name) {
  return builder.append(add_rule(), {a, b}, {}, name)[0];
}

}  // namespace millrace::runtime
