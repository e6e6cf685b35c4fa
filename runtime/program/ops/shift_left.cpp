#include "kernels/shift_left.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// x i32 [T], segments i32 [T] → i32 [T]. A runtime count of whole rows may bound T.
class ShiftLeft final : public OperationRule {
 public:
  std::string_view name() const override { return "shift_left"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && inputs[0].dtype == kernels::DType::i32 && inputs[0].shape.rank() == 1 && inputs[1] == inputs[0],
                   name(), inputs, "x i32 [T], segments i32 [T]");
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::shift_left}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::shift_left(context, inputs[0], inputs[1], attributes.as<kernels::ShiftOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId shift_left(ProgramBuilder& builder, ValueId x, ValueId segments, const kernels::ShiftOptions& options, std::string_view name) {
  static const ShiftLeft rule;
  kernels::ShiftOptions of_rows = options;
  of_rows.sequence = builder.options().sequence;
  return builder.append(rule, {x, segments}, of_rows, name)[0];
}

}  // namespace millrace::runtime
