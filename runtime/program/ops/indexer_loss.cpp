#include "kernels/indexer_loss.hpp"

#include "kernels/attention.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::IndexerLossOptions;

/// The places of the operands: q [T, H·D], k [T, K·D], index_q [T, Hi·Di], index_k [T, Di], index_weights f32 [T, Hi], segments i32 [T],
/// and with lists keys i32 [T, L].
std::size_t count_of(const IndexerLossOptions& options) { return options.list_length > 0 ? 7 : 6; }

bool are_operands(std::span<const ValueType> inputs, const IndexerLossOptions& options) {
  const ValueType &q = inputs[0], &k = inputs[1], &index_q = inputs[2], &index_k = inputs[3], &weights = inputs[4];
  const auto& tokens = q.shape.dimension(0);
  const auto is_alike = [&](const ValueType& other) {
    return rules::is_matrix(other) && other.dtype == q.dtype && other.shape.dimension(0) == tokens;
  };
  return options.head_dim > 0 && options.sequence > 0 && rules::is_matrix(q) && is_alike(k) && is_alike(index_q) && is_alike(index_k) &&
         q.shape[0] % options.sequence == 0 && q.shape[1] % options.head_dim == 0 && k.shape[1] > 0 && k.shape[1] % options.head_dim == 0 &&
         q.shape[1] % k.shape[1] == 0 && weights == ValueType{kernels::DType::f32, {tokens, weights.shape.dimension(1)}} &&
         index_q.shape[1] == index_k.shape[1] * weights.shape[1] && rules::is_indices(inputs[5], tokens) &&
         (options.list_length == 0 || inputs[6] == ValueType{kernels::DType::i32, {tokens, options.list_length}});
}

void check(std::string_view name, std::span<const ValueType> inputs, const IndexerLossOptions& options, std::size_t more) {
  rules::require(inputs.size() == count_of(options) + more && inputs[4].shape.rank() == 2 && are_operands(inputs, options), name, inputs,
                 fmt::format("q [T, H * {0}] and k [T, K * {0}] with K dividing H, index_q [T, Hi * Di], index_k [T, Di], index_weights "
                             "f32 [T, Hi], segments i32 [T]{1}{2}, T a multiple of {3}",
                             options.head_dim, options.list_length > 0 ? fmt::format(", keys i32 [T, {}]", options.list_length) : "",
                             more > 0 ? ", scale f32 [1]" : "", options.sequence));
}

/// FLOPs over the keys of the queries: those that a causal query sees, up to the length of a list. Segments are not known here: they can
/// only make it less. `products`: how often an index product is needed, 2·Di of each head.
double flops(std::span<const ValueType> inputs, const IndexerLossOptions& options, double products) {
  const auto rows = static_cast<double>(inputs[0].shape[0] / options.sequence);
  const double pairs = rows * kernels::attention_pairs({.sequence = options.sequence, .window = options.list_length});
  const auto width = static_cast<double>(inputs[0].shape[1]), heads = width / static_cast<double>(options.head_dim);
  const auto index_width = static_cast<double>(inputs[2].shape[1]), index_heads = static_cast<double>(inputs[4].shape[1]);
  // Per head of the attention a product and a softmax, which is added; per head of the indexer its products, their positive part and sum;
  // then a softmax and the divergence.
  return pairs * (2 * width + 6 * heads + 2 * products * index_width + 3 * index_heads + 20);
}

std::size_t scratch_of(std::span<const ValueType> inputs, const IndexerLossOptions& options, const kernels::Processor& processor) {
  return kernels::indexer_loss_scratch_bytes(rules::heads(inputs[0].shape, options.head_dim),
                                             rules::heads(inputs[2].shape, inputs[3].shape[1]), inputs[0].dtype, options, processor);
}

/// Calls body(operands) with the operands as kernels take them.
template <class Body>
void with_operands(std::span<const kernels::Tensor> inputs, const IndexerLossOptions& options, Body&& body) {
  const kernels::Tensor q = rules::heads(inputs[0], options.head_dim), k = rules::heads(inputs[1], options.head_dim);
  const kernels::Tensor index_q = rules::heads(inputs[2], inputs[3].shape[1]);
  body(kernels::IndexerLossOperands{q, k, index_q, inputs[3], inputs[4], inputs[5], options.list_length > 0 ? &inputs[6] : nullptr});
}

const ValueType loss_type{kernels::DType::f64, {1}};

/// The forward's operands, and the term's scale f32 [1] → d_index_q, d_index_k, d_index_weights, and the loss as the forward yields it.
class IndexerLossInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "indexer_loss_input_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "k" : "weights"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<IndexerLossOptions>();
    check(name(), inputs, options, 1);
    rules::require(rules::is_vector(inputs.back(), 1), name(), inputs, "scale f32 [1] at the end");
    return {inputs[2], inputs[3], inputs[4], loss_type};
  }

  /// The index products again, and the gradients of either of their operands.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs, attributes.as<IndexerLossOptions>(), 3), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes.as<IndexerLossOptions>(), processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::indexer_loss_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto& options = attributes.as<IndexerLossOptions>();
    with_operands(inputs, options, [&](const kernels::IndexerLossOperands& operands) {
      kernels::indexer_loss_input_gradient(context, operands, inputs.back(), options, rules::heads(outputs[0], inputs[3].shape[1]),
                                           outputs[1], outputs[2], outputs[3], scratch);
    });
  }
};

class IndexerLoss final : public OperationRule {
 public:
  std::string_view name() const override { return "indexer_loss"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    check(name(), inputs, attributes.as<IndexerLossOptions>(), 0);
    return {loss_type};
  }

  /// I computes the loss along with the gradients, from the same distributions, so F does not compute it.
  void input_gradient(GradientBuilder& builder) const override {
    static const IndexerLossInputGradient rule;
    if (!builder.wants(2) && !builder.wants(3) && !builder.wants(4)) return;
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < builder.forward().inputs.size(); ++i) operands.push_back(builder.input(i));
    operands.push_back(builder.loss_scale());
    const auto gradients = builder.append_for_forward(rule, std::move(operands), builder.forward().attributes, "dx");
    for (const std::size_t i : {0U, 1U, 2U})
      if (builder.wants(2 + i)) builder.add_gradient(2 + i, gradients[i]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops(inputs, attributes.as<IndexerLossOptions>(), 1), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes.as<IndexerLossOptions>(), processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::indexer_loss}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto& options = attributes.as<IndexerLossOptions>();
    with_operands(inputs, options, [&](const kernels::IndexerLossOperands& operands) {
      kernels::indexer_loss(context, operands, options, outputs[0], scratch);
    });
  }
};

}  // namespace

ValueId indexer_loss(ProgramBuilder& builder, const IndexerLossInputs& inputs, const IndexerLossOptions& options, std::string_view name) {
  static const IndexerLoss rule;
  std::vector<ValueId> operands{inputs.q, inputs.k, inputs.index_q, inputs.index_k, inputs.index_weights, inputs.segments};
  auto here = options;
  here.sequence = builder.options().sequence;
  here.list_length = 0;
  if (inputs.keys.valid()) {
    operands.push_back(inputs.keys);
    here.list_length = builder.type(inputs.keys).shape[1];
  }
  return builder.append(rule, std::move(operands), here, name)[0];
}

}  // namespace millrace::runtime
