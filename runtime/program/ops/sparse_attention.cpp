#include "kernels/sparse_attention.hpp"

#include "kernels/attention.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::SparseAttentionOptions;

/// The widths of a head of q and k, and of one of v and o.
struct Widths {
  explicit Widths(const Attributes& attributes)
      : head_dim(attributes.as<SparseAttentionOptions>().head_dim),
        v_head_dim(kernels::value_width(attributes.as<SparseAttentionOptions>(), head_dim)) {}
  std::int64_t head_dim, v_head_dim;
};

/// q [T, H·D], k [T, K·D] and v [T, K·Dv] of one dtype, K divides H, and key lists i32 [T, L].
bool are_operands(std::span<const ValueType> inputs, Widths widths) {
  const ValueType &q = inputs[0], &k = inputs[1], &v = inputs[2], &keys = inputs[3];
  const auto of_tokens = [&](const ValueType& other) {
    return other.shape.rank() == 2 && q.shape.dimension(0) == other.shape.dimension(0);
  };
  return widths.head_dim > 0 && widths.v_head_dim > 0 && rules::is_matrix(q) && of_tokens(k) && of_tokens(v) && of_tokens(keys) &&
         k.dtype == q.dtype && v.dtype == q.dtype && keys.dtype == kernels::DType::i32 && k.shape[1] > 0 &&
         q.shape[1] % widths.head_dim == 0 && k.shape[1] % widths.head_dim == 0 &&
         v.shape[1] == k.shape[1] / widths.head_dim * widths.v_head_dim && q.shape[1] % k.shape[1] == 0;
}

/// [T, H·Dv], the result of such heads.
ValueType result_of(const ValueType& q, Widths widths) {
  return {q.dtype, {q.shape.dimension(0), q.shape[1] / widths.head_dim * widths.v_head_dim}};
}

/// FLOPs of products over the keys that are listed, all query heads: as many as a causal query sees, up to the length of a list.
/// `elements`: those of q or o, or both, once for each product that they are in.
double product_flops(double elements, const ValueType& keys, const Attributes& attributes) {
  const auto sequence = attributes.as<SparseAttentionOptions>().sequence;
  return 2 * elements * (kernels::attention_pairs({.sequence = sequence, .window = keys.shape[1]}) / static_cast<double>(sequence));
}

std::size_t scratch_of(std::span<const ValueType> inputs, const Attributes& attributes, const kernels::Processor& processor) {
  const auto& options = attributes.as<SparseAttentionOptions>();
  return kernels::sparse_attention_scratch_bytes(rules::heads(inputs[0].shape, options.head_dim),
                                                 rules::heads(inputs[1].shape, options.head_dim), inputs[3].shape[1], inputs[0].dtype,
                                                 options, processor);
}

/// q, k, v, keys, dO, o, log_sum_exp → dq, dk, dv.
class SparseAttentionInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "sparse_attention_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "k" : "v"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const Widths widths(attributes);
    rules::require(
        inputs.size() == 7 && are_operands(inputs, widths) && inputs[4] == result_of(inputs[0], widths) && inputs[5] == inputs[4], name(),
        inputs, "q, k, v, keys, dO, o, log_sum_exp");
    return {inputs[0], inputs[1], inputs[2]};
  }

  /// Five products: scores again, dQ and dK over D features; dV and dP over Dv.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {product_flops(3 * rules::elements(inputs[0]) + 2 * rules::elements(inputs[5]), inputs[3], attributes),
            rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::sparse_attention_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const Widths widths(attributes);
    const auto heads = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, widths.head_dim); };
    const auto values = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, widths.v_head_dim); };
    kernels::sparse_attention_input_gradient(context, values(inputs[4]), heads(inputs[0]), heads(inputs[1]), values(inputs[2]),
                                             values(inputs[5]), inputs[6], inputs[3], attributes.as<SparseAttentionOptions>(),
                                             heads(outputs[0]), heads(outputs[1]), values(outputs[2]), scratch);
  }
};

class SparseAttention final : public OperationRule {
 public:
  std::string_view name() const override { return "sparse_attention"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "log_sum_exp"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const Widths widths(attributes);
    const auto sequence = attributes.as<SparseAttentionOptions>().sequence;
    rules::require(inputs.size() == 4 && are_operands(inputs, widths) && sequence > 0 && inputs[0].shape[0] % sequence == 0, name(), inputs,
                   fmt::format("q [T, H * {0}], k [T, K * {0}] and v [T, K * {1}] with K dividing H, keys i32 [T, L], T a multiple of {2}",
                               widths.head_dim, widths.v_head_dim, sequence));
    return {result_of(inputs[0], widths), {kernels::DType::f32, {inputs[0].shape.dimension(0), inputs[0].shape[1] / widths.head_dim}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SparseAttentionInputGradient rule;
    if (!rules::wants_any(builder, 3)) return;
    const auto gradients = builder.append(rule,
                                          {builder.input(0), builder.input(1), builder.input(2), builder.input(3),
                                           builder.output_gradient(0), builder.output(0), builder.output(1)},
                                          builder.forward().attributes, "dx");
    rules::add_gradients(builder, gradients);
  }

  /// Scores and their product with v.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {product_flops(rules::elements(inputs[0]) + rules::elements(outputs[0]), inputs[3], attributes),
            rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::sparse_attention_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const Widths widths(attributes);
    kernels::sparse_attention_forward(context, rules::heads(inputs[0], widths.head_dim), rules::heads(inputs[1], widths.head_dim),
                                      rules::heads(inputs[2], widths.v_head_dim), inputs[3], attributes.as<SparseAttentionOptions>(),
                                      rules::heads(outputs[0], widths.v_head_dim), outputs[1], scratch);
  }
};

}  // namespace

ValueId sparse_attention(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId keys, const SparseAttentionOptions& options,
                         std::string_view name) {
  static const SparseAttention rule;
  auto here = options;
  here.sequence = builder.options().sequence;
  return builder.append(rule, {q, k, v, keys}, here, name)[0];
}

}  // namespace millrace::runtime
