#include "kernels/balance_loss.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// Logits [T, E] of whole sequences. A runtime count of tokens would change the length of a sequence instead of the number of sequences.
bool are_logits(const ValueType& type, const kernels::BalanceLossOptions& options) {
  return rules::is_matrix(type) && !type.shape.dimension(0).bounded() && options.sequences >= 1 && type.shape[0] % options.sequences == 0;
}

/// i32 [B, E]: how often each expert was chosen in each sequence.
ValueType choices_of(const ValueType& logits, const kernels::BalanceLossOptions& options) {
  return {kernels::DType::i32, {options.sequences, logits.shape.dimension(1)}};
}

/// Per logit: the difference to the largest one, its exponential and the sum, twice, and a product with choices; for the gradient another
/// difference, exponential and product, and the product with choices − mean.
constexpr double forward_flops = 7, gradient_flops = forward_flops + 5;

/// logits [T, E], choices i32 [B, E], the term's scale f32 [1] → d_logits [T, E].
class BalanceLossInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "balance_loss_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<kernels::BalanceLossOptions>();
    rules::require(inputs.size() == 3 && are_logits(inputs[0], options) && inputs[1] == choices_of(inputs[0], options) &&
                       rules::is_vector(inputs[2], 1),
                   name(), inputs, fmt::format("logits [T, E] of {0} sequences, choices i32 [{0}, E], scale f32 [1]", options.sequences));
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {gradient_flops * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::balance_loss_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::balance_loss_input_gradient(context, inputs[0], inputs[1], inputs[2], attributes.as<kernels::BalanceLossOptions>(),
                                         outputs[0]);
  }
};

class BalanceLoss final : public OperationRule {
 public:
  std::string_view name() const override { return "balance_loss"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "choices"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<kernels::BalanceLossOptions>();
    rules::require(inputs.size() == 2 && are_logits(inputs[0], options) && inputs[1].dtype == kernels::DType::i32 &&
                       inputs[1].shape.rank() == 2 && inputs[1].shape.dimension(0) == inputs[0].shape.dimension(0),
                   name(), inputs,
                   fmt::format("logits [T, E] and experts i32 [T, K] of {} sequences, without a runtime count", options.sequences));
    return {{kernels::DType::f64, {1}}, choices_of(inputs[0], options)};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const BalanceLossInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(
        0, builder.append(rule, {builder.input(0), builder.output(1), builder.loss_scale()}, builder.forward().attributes, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {forward_flops * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::balance_loss}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::balance_loss(context, inputs[0], inputs[1], attributes.as<kernels::BalanceLossOptions>(), outputs[0], outputs[1]);
  }
};

}  // namespace

ValueId balance_loss(ProgramBuilder& builder, ValueId logits, ValueId experts, const kernels::BalanceLossOptions& options,
                     std::string_view name) {
  static const BalanceLoss rule;
  return builder.append(rule, {logits, experts}, options, name)[0];
}

}  // namespace millrace::runtime
