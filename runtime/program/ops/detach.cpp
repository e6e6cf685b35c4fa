#include "kernels/elementwise.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// A copy, so that differentiation sees another value.
class Detach final : public OperationRule {
 public:
  std::string_view name() const override { return "detach"; }
  bool differentiable() const override { return false; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, D]");
    return {inputs[0]};
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

ValueId detach(ProgramBuilder& builder, ValueId x, std::string_view name) {
  static const Detach rule;
  return builder.append(rule, {x}, {}, name)[0];
}

}  // namespace millrace::runtime
