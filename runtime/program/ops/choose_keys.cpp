#include "kernels/choose_keys.hpp"

#include "kernels/attention.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// q [T, H·D], k [T, D], weights f32 [T, H], segments i32 [T] → key lists i32 [T, L].
class ChooseKeys final : public OperationRule {
 public:
  std::string_view name() const override { return "choose_keys"; }
  bool differentiable() const override { return false; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<kernels::ChooseKeysOptions>();
    const auto fits = [&] {
      const auto& tokens = inputs[0].shape.dimension(0);
      return rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[1].dtype == inputs[0].dtype &&
             inputs[1].shape.dimension(0) == tokens && rules::is_matrix(inputs[2]) && inputs[2].dtype == kernels::DType::f32 &&
             inputs[2].shape.dimension(0) == tokens && inputs[0].shape[1] == inputs[1].shape[1] * inputs[2].shape[1] &&
             rules::is_indices(inputs[3], tokens) && options.sequence > 0 && inputs[0].shape[0] % options.sequence == 0;
    };
    rules::require(
        inputs.size() == 4 && fits(), name(), inputs,
        fmt::format("q [T, H * D] and k [T, D] of one dtype, weights f32 [T, H], segments i32 [T], T a multiple of {}", options.sequence));
    return {{kernels::DType::i32, {inputs[0].shape.dimension(0), options.keys_per_query}}};
  }

  /// For each key that a query may see and each head: a product, its positive part, and the weighted sum. Segments are not known here: they
  /// can only make it less. Comparisons are not counted.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<kernels::ChooseKeysOptions>();
    const auto rows = static_cast<double>(inputs[0].shape[0] / options.sequence);
    const double pairs = kernels::attention_pairs({.sequence = options.sequence});
    const auto heads = static_cast<double>(inputs[2].shape[1]), width = static_cast<double>(inputs[1].shape[1]);
    return {rows * pairs * heads * (2 * width + 3), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return kernels::choose_keys_scratch_bytes(rules::heads(inputs[0].shape, inputs[1].shape[1]), inputs[0].dtype,
                                              attributes.as<kernels::ChooseKeysOptions>(), processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::choose_keys}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::choose_keys(context, rules::heads(inputs[0], inputs[1].shape[1]), inputs[1], inputs[2], inputs[3],
                         attributes.as<kernels::ChooseKeysOptions>(), outputs[0], scratch);
  }
};

}  // namespace

ValueId choose_keys(ProgramBuilder& builder, ValueId q, ValueId k, ValueId weights, ValueId segments,
                    const kernels::ChooseKeysOptions& options, std::string_view name) {
  static const ChooseKeys rule;
  auto here = options;
  here.sequence = builder.options().sequence;
  return builder.append(rule, {q, k, weights, segments}, here, name)[0];
}

}  // namespace millrace::runtime
