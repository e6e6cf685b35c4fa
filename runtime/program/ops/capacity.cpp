#include "kernels/capacity.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::CapacityOptions;

bool are_numbers(const ValueType& type, kernels::DType dtype) {
  return type.dtype == dtype && type.shape.rank() == 2 && type.shape[1] >= 1;
}

/// d_kept_weights f32 [T, K], kept i32 [T, K] → d_weights f32 [T, K].
class ApplyCapacityInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "apply_capacity_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(
        inputs.size() == 2 && are_numbers(inputs[0], kernels::DType::f32) && inputs[1] == ValueType{kernels::DType::i32, inputs[0].shape},
        name(), inputs, "d_kept_weights f32 [T, K] and kept i32 [T, K]");
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::apply_capacity_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::apply_capacity_input_gradient(context, inputs[0], inputs[1], outputs[0]);
  }
};

/// weights f32 [T, K], experts i32 [T, K] → kept_weights f32 [T, K], kept i32 [T, K], dropped i32 [1].
class ApplyCapacity final : public OperationRule {
 public:
  std::string_view name() const override { return "apply_capacity"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "kept" : "dropped"; }

  /// A runtime count of tokens would change the length of a sequence instead of the number of sequences.
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<CapacityOptions>();
    rules::require(inputs.size() == 2 && are_numbers(inputs[0], kernels::DType::f32) &&
                       inputs[1] == ValueType{kernels::DType::i32, inputs[0].shape} && !inputs[0].shape.bounded() &&
                       options.sequences >= 1 && inputs[0].shape[0] % options.sequences == 0 && options.experts >= 1,
                   name(), inputs,
                   fmt::format("weights f32 [T, K] and experts i32 [T, K] of {} sequences, without a runtime count", options.sequences));
    return {inputs[0], inputs[1], {kernels::DType::i32, {1}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const ApplyCapacityInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.output(1)}, {}, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::apply_capacity}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::apply_capacity(context, inputs[0], inputs[1], attributes.as<CapacityOptions>(), outputs[0], outputs[1], outputs[2]);
  }
};

}  // namespace

KeptChoices apply_capacity(ProgramBuilder& builder, ValueId weights, ValueId experts, const CapacityOptions& options,
                           std::string_view name) {
  static const ApplyCapacity rule;
  const auto results = builder.append(rule, {weights, experts}, options, name);
  return {results[0], results[1], results[2]};
}

}  // namespace millrace::runtime
