#include "kernels/gated_delta_rule.hpp"

#include <array>
#include <string>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::GatedDeltaRuleOptions;

/// q and k [T, Hk·dk], v [T, Hv·dv] of one dtype with Hk dividing Hv, g and beta f32 [T, Hv], segments i32 [T], T a multiple of the
/// sequence.
bool are_operands(std::span<const ValueType> inputs, const GatedDeltaRuleOptions& options) {
  if (inputs.size() != 6 || options.head_k_dim <= 0 || options.head_v_dim <= 0) return false;
  const ValueType &q = inputs[0], &v = inputs[2], &g = inputs[3], &segments = inputs[5];
  if (!rules::is_matrix(q) || !rules::is_matrix(v) || q.shape[1] % options.head_k_dim != 0 || v.shape[1] % options.head_v_dim != 0)
    return false;
  const std::int64_t key_heads = q.shape[1] / options.head_k_dim, value_heads = v.shape[1] / options.head_v_dim;
  return inputs[1] == q && v.dtype == q.dtype && v.shape.dimension(0) == q.shape.dimension(0) && key_heads > 0 &&
         value_heads % key_heads == 0 && value_heads > 0 && g == ValueType{kernels::DType::f32, {q.shape.dimension(0), value_heads}} &&
         inputs[4] == g && rules::is_indices(segments, q.shape.dimension(0)) && q.shape[0] % options.sequence == 0;
}

std::string expected_operands(const GatedDeltaRuleOptions& options) {
  return fmt::format(
      "q and k [T, Hk * {}], v [T, Hv * {}] with Hk dividing Hv, g and beta f32 [T, Hv], segments i32 [T], T a multiple of {}",
      options.head_k_dim, options.head_v_dim, options.sequence);
}

kernels::Shape keys(const ValueType& q, const GatedDeltaRuleOptions& options) { return rules::heads(q.shape, options.head_k_dim); }
kernels::Shape values(const ValueType& v, const GatedDeltaRuleOptions& options) { return rules::heads(v.shape, options.head_v_dim); }

kernels::GatedDeltaRuleFlops flops(const ValueType& q, const ValueType& v, const GatedDeltaRuleOptions& options) {
  return kernels::gated_delta_rule_flops(q.shape[0], q.shape[1] / options.head_k_dim, v.shape[1] / options.head_v_dim, options);
}

/// dO, q, k, v, g, beta, segments → dq, dk, dv, dg, dbeta.
class GatedDeltaRuleInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "gated_delta_rule_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override {
    constexpr std::array<std::string_view, 5> suffixes = {"", "k", "v", "g", "beta"};
    return suffixes.at(i);
  }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    rules::require(inputs.size() == 7 && are_operands(inputs.subspan(1), options) && inputs[0] == inputs[3], name(), inputs,
                   "dO of v's type, " + expected_operands(options));
    return {inputs[1], inputs[2], inputs[3], inputs[4], inputs[5]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs[1], inputs[3], attributes.as<GatedDeltaRuleOptions>()).gradient, rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    return kernels::gated_delta_rule_gradient_scratch_bytes(keys(inputs[1], options), values(inputs[3], options), options, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::gated_delta_rule_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    const auto keys = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, options.head_k_dim); };
    const auto values = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, options.head_v_dim); };
    kernels::gated_delta_rule_input_gradient(context, values(inputs[0]), keys(inputs[1]), keys(inputs[2]), values(inputs[3]), inputs[4],
                                             inputs[5], inputs[6], options, keys(outputs[0]), keys(outputs[1]), values(outputs[2]),
                                             outputs[3], outputs[4], scratch);
  }
};

class GatedDeltaRule final : public OperationRule {
 public:
  std::string_view name() const override { return "gated_delta_rule"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    rules::require(are_operands(inputs, options), name(), inputs, expected_operands(options));
    return {inputs[2]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const GatedDeltaRuleInputGradient rule;
    if (!rules::wants_any(builder, 5)) return;
    std::vector<ValueId> inputs{builder.output_gradient(0)};
    for (std::size_t i = 0; i < 6; ++i) inputs.push_back(builder.input(i));
    rules::add_gradients(builder, builder.append(rule, std::move(inputs), builder.forward().attributes, "dq"));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs[0], inputs[2], attributes.as<GatedDeltaRuleOptions>()).forward, rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    return kernels::gated_delta_rule_forward_scratch_bytes(keys(inputs[0], options), values(inputs[2], options), options, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::gated_delta_rule_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto& options = attributes.as<GatedDeltaRuleOptions>();
    kernels::gated_delta_rule_forward(context, rules::heads(inputs[0], options.head_k_dim), rules::heads(inputs[1], options.head_k_dim),
                                      rules::heads(inputs[2], options.head_v_dim), inputs[3], inputs[4], inputs[5], options,
                                      rules::heads(outputs[0], options.head_v_dim), scratch);
  }
};

}  // namespace

ValueId gated_delta_rule(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId g, ValueId beta, ValueId segments,
                         const kernels::GatedDeltaRuleOptions& options, std::string_view name) {
  static const GatedDeltaRule rule;
  auto here = options;
  here.sequence = builder.options().sequence;
  here.one_segment = builder.options().one_segment;
  return builder.append(rule, {q, k, v, g, beta, segments}, here, name)[0];
}

}  // namespace millrace::runtime
