#include "kernels/attention.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// The widths of a head of q and k, and of one of v and o.
struct Widths {
  explicit Widths(const Attributes& attributes)
      : head_dim(attributes.as<kernels::AttentionOptions>().head_dim),
        v_head_dim(kernels::value_width(attributes.as<kernels::AttentionOptions>(), head_dim)) {}
  std::int64_t head_dim, v_head_dim;
};

/// q [T, H·D], k [T, K·D] and v [T, K·Dv] of one dtype, and K divides H.
bool are_heads(const ValueType& q, const ValueType& k, const ValueType& v, Widths widths) {
  const auto alike = [&](const ValueType& other) { return q.dtype == other.dtype && q.shape.dimension(0) == other.shape.dimension(0); };
  return widths.head_dim > 0 && widths.v_head_dim > 0 && rules::is_matrix(q) && rules::is_matrix(k) && rules::is_matrix(v) && alike(k) &&
         alike(v) && k.shape[1] > 0 && q.shape[1] % widths.head_dim == 0 && k.shape[1] % widths.head_dim == 0 &&
         v.shape[1] == k.shape[1] / widths.head_dim * widths.v_head_dim && q.shape[1] % k.shape[1] == 0;
}

/// [T, H·Dv], the result of such heads.
ValueType result_of(const ValueType& q, Widths widths) {
  return {q.dtype, {q.shape.dimension(0), q.shape[1] / widths.head_dim * widths.v_head_dim}};
}

/// FLOPs of products over the pairs of query and key that the mask leaves, all query heads. `elements`: those of q or o, or both, once for
/// each product that they are in. Segments are not known here: they can only make it less.
double product_flops(double elements, const Attributes& attributes) {
  const auto options = attributes.as<kernels::AttentionOptions>();
  return 2 * elements * (kernels::attention_pairs(options) / static_cast<double>(options.sequence));
}

/// Whether the attributes say that queries see chosen blocks alone.
bool is_picked(const Attributes& attributes) { return attributes.as<kernels::AttentionOptions>().block > 0; }

/// Whether `choice` has the bits of queries of this type.
bool is_choice(const ValueType& choice, const ValueType& q, const Attributes& attributes) {
  const auto& options = attributes.as<kernels::AttentionOptions>();
  return choice ==
         ValueType{kernels::DType::i32,
                   {q.shape.dimension(0), q.shape[1] / options.head_dim * kernels::choice_words(options.sequence, options.block)}};
}

/// A view of the choice as [T, H, W].
kernels::Tensor choice_of(kernels::Tensor choice, const Attributes& attributes) {
  const auto& options = attributes.as<kernels::AttentionOptions>();
  return rules::heads(choice, kernels::choice_words(options.sequence, options.block));
}

std::size_t scratch_of(const ValueType& q, const ValueType& k, const Attributes& attributes, const kernels::Processor& processor) {
  const auto head_dim = attributes.as<kernels::AttentionOptions>().head_dim;
  return kernels::attention_scratch_bytes(rules::heads(q.shape, head_dim), rules::heads(k.shape, head_dim), q.dtype,
                                          attributes.as<kernels::AttentionOptions>(), processor);
}

/// dO, q, k, v, o, log_sum_exp, segments, perhaps a choice → dq, dk, dv.
class AttentionInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "attention_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "k" : "v"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const Widths widths(attributes);
    const bool picked = is_picked(attributes);
    rules::require(inputs.size() == (picked ? 8U : 7U) && are_heads(inputs[1], inputs[2], inputs[3], widths) &&
                       inputs[0] == result_of(inputs[1], widths) && inputs[4] == inputs[0] &&
                       (!picked || is_choice(inputs[7], inputs[1], attributes)),
                   name(), inputs, fmt::format("dO, q, k, v, o, log_sum_exp, segments{}", picked ? ", choice" : ""));
    return {inputs[1], inputs[2], inputs[3]};
  }

  /// Five products: scores again, dQ and dK over D features; dV and dP over Dv.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {product_flops(3 * rules::elements(inputs[1]) + 2 * rules::elements(inputs[4]), attributes), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs[1], inputs[2], attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::attention_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const Widths widths(attributes);
    const auto heads = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, widths.head_dim); };
    const auto values = [&](const kernels::Tensor& tensor) { return rules::heads(tensor, widths.v_head_dim); };
    kernels::Tensor choice;
    if (inputs.size() == 8) choice = choice_of(inputs[7], attributes);
    kernels::attention_input_gradient(context, values(inputs[0]), heads(inputs[1]), heads(inputs[2]), values(inputs[3]), values(inputs[4]),
                                      inputs[5], inputs[6], attributes.as<kernels::AttentionOptions>(), heads(outputs[0]),
                                      heads(outputs[1]), values(outputs[2]), scratch, inputs.size() == 8 ? &choice : nullptr);
  }
};

/// dO, o, log_sum_exp, sinks: adds into f32 [H].
class AttentionSinkGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "attention_sink_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(
        inputs.size() == 4 && inputs[0] == inputs[1] && inputs[2].shape.rank() == 2 && inputs[3].shape.elements() == inputs[2].shape[1],
        name(), inputs, "dO and o [T, H * v_head_dim], log_sum_exp [T, H], sinks [H]");
    return {inputs[3]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::attention_sink_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto v_head_dim = Widths(attributes).v_head_dim;
    kernels::attention_sink_gradient(context, rules::heads(inputs[0], v_head_dim), rules::heads(inputs[1], v_head_dim), inputs[2],
                                     inputs[3], outputs[0]);
  }
};

class Attention final : public OperationRule {
 public:
  std::string_view name() const override { return "attention"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "log_sum_exp"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const Widths widths(attributes);
    const auto sequence = attributes.as<kernels::AttentionOptions>().sequence;
    const bool picked = is_picked(attributes);
    const std::size_t fewest = picked ? 5 : 4;
    rules::require(
        (inputs.size() == fewest || inputs.size() == fewest + 1) && are_heads(inputs[0], inputs[1], inputs[2], widths) &&
            rules::is_indices(inputs[3], inputs[0].shape.dimension(0)) && inputs[0].shape[0] % sequence == 0 &&
            (inputs.size() == fewest || inputs[4].shape == kernels::Shape{inputs[0].shape[1] / widths.head_dim}) &&
            (!picked || is_choice(inputs.back(), inputs[0], attributes)),
        name(), inputs,
        fmt::format("q [T, H * {0}], k [T, K * {0}] and v [T, K * {1}] with K dividing H, segments i32 [T], T a multiple of {2}, perhaps "
                    "sinks [H]{3}",
                    widths.head_dim, widths.v_head_dim, sequence, picked ? ", a choice i32 [T, H * W]" : ""));
    return {result_of(inputs[0], widths), {kernels::DType::f32, {inputs[0].shape.dimension(0), inputs[0].shape[1] / widths.head_dim}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const AttentionInputGradient rule;
    if (!rules::wants_any(builder, 3)) return;
    std::vector<ValueId> operands{builder.output_gradient(0), builder.input(0),  builder.input(1), builder.input(2),
                                  builder.output(0),          builder.output(1), builder.input(3)};
    if (is_picked(builder.forward().attributes)) operands.push_back(builder.input(builder.forward().inputs.size() - 1));
    const auto gradients = builder.append(rule, std::move(operands), builder.forward().attributes, "dx");
    rules::add_gradients(builder, gradients);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const AttentionSinkGradient rule;
    if (has_sinks(builder.forward().inputs.size(), builder.forward().attributes))
      builder.append_accumulate(rule, {builder.output_gradient(0), builder.output(0), builder.output(1), builder.input(4)},
                                {builder.accumulator(4)}, builder.forward().attributes, "dsinks");
  }

  /// Scores and their product with v.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {product_flops(rules::elements(inputs[0]) + rules::elements(outputs[0]), attributes), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs[0], inputs[1], attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::attention_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const Widths widths(attributes);
    kernels::Tensor choice;
    if (is_picked(attributes)) choice = choice_of(inputs.back(), attributes);
    kernels::attention_forward(context, rules::heads(inputs[0], widths.head_dim), rules::heads(inputs[1], widths.head_dim),
                               rules::heads(inputs[2], widths.v_head_dim), inputs[3], attributes.as<kernels::AttentionOptions>(),
                               rules::heads(outputs[0], widths.v_head_dim), outputs[1], scratch,
                               has_sinks(inputs.size(), attributes) ? &inputs[4] : nullptr, is_picked(attributes) ? &choice : nullptr);
  }

 private:
  static bool has_sinks(std::size_t operands, const Attributes& attributes) { return operands == (is_picked(attributes) ? 6U : 5U); }
};

}  // namespace

ValueId attention(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId segments, const kernels::AttentionOptions& options,
                  std::string_view name, ValueId sinks, ValueId choice) {
  static const Attention rule;
  std::vector<ValueId> inputs{q, k, v, segments};
  if (sinks.valid()) inputs.push_back(sinks);
  if (choice.valid()) inputs.push_back(choice);
  auto here = options;
  here.sequence = builder.options().sequence;
  // The padding behind a text is a segment of its own, which a causal query of the text does not reach, but any other would.
  here.one_segment = builder.options().one_segment && options.causal;
  return builder.append(rule, std::move(inputs), here, name)[0];
}

}  // namespace millrace::runtime
