#include "kernels/count_matches.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

// What a head predicts, and how often two heads predict the same. Only evaluations compute them.
namespace millrace::runtime {
namespace {

/// h [T, D], weight [V, D] of one dtype → i32 [T].
class LinearArgmax final : public OperationRule {
 public:
  std::string_view name() const override { return "linear_argmax"; }
  bool differentiable() const override { return false; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[0].dtype == inputs[1].dtype &&
                       inputs[0].shape.dimension(1) == inputs[1].shape.dimension(1),
                   name(), inputs, "h [T, D] and weight [V, D] of one dtype");
    return {{kernels::DType::i32, {inputs[0].shape.dimension(0)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[0]) * static_cast<double>(inputs[1].shape[0]), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return kernels::linear_cross_entropy_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype,
                                                       attributes.as<kernels::CrossEntropyOptions>(), processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_argmax}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_argmax(context, inputs[0], inputs[1], attributes.as<kernels::CrossEntropyOptions>(), outputs[0], scratch);
  }
};

/// x, y, targets i32 [T] → f64 [1].
class CountMatches final : public OperationRule {
 public:
  std::string_view name() const override { return "count_matches"; }
  bool differentiable() const override { return false; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && inputs[0].dtype == kernels::DType::i32 && inputs[0].shape.rank() == 1 && inputs[1] == inputs[0] &&
                       inputs[2] == inputs[0],
                   name(), inputs, "x, y and targets i32 [T]");
    return {{kernels::DType::f64, {1}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::count_matches}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::count_matches(context, inputs[0], inputs[1], inputs[2], outputs[0]);
  }
};

}  // namespace

ValueId linear_argmax(ProgramBuilder& builder, ValueId h, ValueId weight, const kernels::CrossEntropyOptions& options,
                      std::string_view name) {
  static const LinearArgmax rule;
  return builder.append(rule, {h, weight}, options, name)[0];
}

ValueId count_matches(ProgramBuilder& builder, ValueId x, ValueId y, ValueId targets, std::string_view name) {
  static const CountMatches rule;
  return builder.append(rule, {x, y, targets}, {}, name)[0];
}

}  // namespace millrace::runtime
