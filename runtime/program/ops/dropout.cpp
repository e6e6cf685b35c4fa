#include "kernels/dropout.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class Dropout final : public OperationRule {
 public:
  std::string_view name() const override { return "dropout"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_indices(inputs[1], inputs[0].shape.dimension(0)), name(),
                   inputs, "x [T, D], samples i32 [T]");
    return {inputs[0]};
  }

  /// The gradient is dropout of dy with the same mask.
  void input_gradient(GradientBuilder& builder) const override { rules::add_own_gradient(builder, *this); }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::dropout}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::dropout(context, inputs[0], inputs[1], attributes.as<kernels::DropoutOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId dropout(ProgramBuilder& builder, ValueId x, double rate, std::string_view name) {
  static const Dropout rule;
  // FNV-1a of the operation's full name, which contains the layer and the place in it.
  std::uint64_t site = 0xcbf29ce484222325ULL;
  for (const std::string_view part : {std::string_view(builder.scope()), std::string_view("."), name})
    for (const char letter : part) site = (site ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return builder.append(rule, {x, builder.batch("samples")}, kernels::DropoutOptions{static_cast<float>(rate), site}, name)[0];
}

}  // namespace millrace::runtime
