#include "kernels/elementwise.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// y = 0, without operands: the gradient that a stage hands back for an input that it does not use.
class Zeros final : public OperationRule {
 public:
  std::string_view name() const override { return "zeros"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(false, name(), inputs, "a transform that gives the type of the result itself");
    return {};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::fill_zero}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor>, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::fill_zero(context, outputs[0]);
  }
};

}  // namespace

const OperationRule& zeros_rule() {
  static const Zeros rule;
  return rule;
}

}  // namespace millrace::runtime
