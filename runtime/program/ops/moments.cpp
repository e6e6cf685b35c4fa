#include "kernels/moments.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// It has no gradient: its result is shown and serves nothing else.
class Moments final : public OperationRule {
 public:
  std::string_view name() const override { return "moments"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, D]");
    return {{kernels::DType::f64, {4}}};
  }

  /// Per element: a comparison, its sum, the element's sum, its square and that one's sum.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {5 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::moments}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::moments(context, inputs[0], outputs[0]);
  }
};

}  // namespace

ValueId moments(ProgramBuilder& builder, ValueId x, std::string_view name) {
  static const Moments rule;
  return builder.append(rule, {x}, {}, name)[0];
}

}  // namespace millrace::runtime
