#include "kernels/elementwise.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// accumulator += x, for parameters whose gradient is an activation's.
class Accumulate final : public OperationRule {
 public:
  std::string_view name() const override { return "accumulate"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1, name(), inputs, "one operand");
    return {{kernels::DType::f32, inputs[0].shape}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(outputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::accumulate}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::accumulate(context, inputs[0], outputs[0]);
  }
};

}  // namespace

const OperationRule& accumulate_rule() {
  static const Accumulate rule;
  return rule;
}

}  // namespace millrace::runtime
