#include "kernels/elementwise.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// A matrix in another dtype.
class Convert : public OperationRule {
 public:
  Convert(kernels::DType from, kernels::DType to) : from_(from), to_(to) {}

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].dtype == from_, name(), inputs,
                   fmt::format("{} [T, D]", kernels::to_string(from_)));
    return {{to_, inputs[0].shape}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::convert}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::convert(context, inputs[0], outputs[0]);
  }

 private:
  kernels::DType from_, to_;
};

/// dy f32 [T, D] → bf16 [T, D].
class ToF32InputGradient final : public Convert {
 public:
  ToF32InputGradient() : Convert(kernels::DType::f32, kernels::DType::bf16) {}
  std::string_view name() const override { return "to_f32_input_gradient"; }
};

/// x bf16 [T, D] → f32 [T, D].
class ToF32 final : public Convert {
 public:
  ToF32() : Convert(kernels::DType::bf16, kernels::DType::f32) {}
  std::string_view name() const override { return "to_f32"; }

  void input_gradient(GradientBuilder& builder) const override {
    static const ToF32InputGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0)}, {}, "dx")[0]);
  }
};

}  // namespace

ValueId to_f32(ProgramBuilder& builder, ValueId x, std::string_view name) {
  static const ToF32 rule;
  return builder.type(x).dtype == kernels::DType::f32 ? x : builder.append(rule, {x}, {}, name)[0];
}

}  // namespace millrace::runtime
