#include "kernels/embedding.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// Whether it is i32 [T], or [T, n] with several rows of the table for each token.
bool is_tokens(const ValueType& type) {
  return type.dtype == kernels::DType::i32 && (type.shape.rank() == 1 || (type.shape.rank() == 2 && type.shape[1] >= 1));
}
std::int64_t rows_per_token(const kernels::Shape& tokens) { return tokens.rank() == 1 ? 1 : tokens[1]; }
kernels::Tensor all_tokens(const kernels::Tensor& tokens) { return tokens.shape.rank() == 1 ? tokens : rules::numbers(tokens); }

/// The number of rows of the gradient, which does not follow from its operands' shapes.
struct EmbeddingGradientOptions {
  std::int64_t vocabulary = 0;

  static constexpr auto members() { return std::tuple(kernels::member("vocabulary", &EmbeddingGradientOptions::vocabulary)); }
};

/// tokens i32 [T] or [T, n], dy [T, D] or [T, n·D]: adds into f32 [V, D].
class EmbeddingWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "embedding_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 2 && is_tokens(inputs[0]) && rules::is_matrix(inputs[1]) &&
                       inputs[0].shape.dimension(0) == inputs[1].shape.dimension(0) &&
                       inputs[1].shape[1] % rows_per_token(inputs[0].shape) == 0,
                   name(), inputs, "tokens [T] and dy [T, D], or [T, n] and [T, n * D]");
    return {{kernels::DType::f32,
             {attributes.as<EmbeddingGradientOptions>().vocabulary, inputs[1].shape[1] / rows_per_token(inputs[0].shape)}}};
  }

  /// One addition per element of dy; only the rows of the microbatch's tokens are touched.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes&) const override {
    return {rules::elements(inputs[1]), rules::bytes(inputs) + 8 * rules::elements(inputs[1])};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::embedding_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::embedding_weight_gradient(context, all_tokens(inputs[0]), rules::vectors(inputs[1], outputs[0].shape[1]), outputs[0]);
  }
};

class Embedding final : public OperationRule {
 public:
  std::string_view name() const override { return "embedding"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && is_tokens(inputs[0]) && rules::is_matrix(inputs[1]), name(), inputs,
                   "tokens i32 [T] or [T, n], and table [V, D]");
    return {{inputs[1].dtype, {inputs[0].shape.dimension(0), rows_per_token(inputs[0].shape) * inputs[1].shape[1]}}};
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const EmbeddingWeightGradient rule;
    const auto vocabulary = builder.type(builder.input(1)).shape[0];
    builder.append_accumulate(rule, {builder.input(0), builder.output_gradient(0)}, {builder.accumulator(1)},
                              EmbeddingGradientOptions{vocabulary}, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::bytes(inputs.first(1)) + 2 * rules::bytes(outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::embedding_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::embedding_forward(context, all_tokens(inputs[0]), inputs[1], rules::vectors(outputs[0], inputs[1].shape[1]));
  }
};

}  // namespace

ValueId embedding(ProgramBuilder& builder, ValueId tokens, ValueId table, std::string_view name) {
  static const Embedding rule;
  return builder.append(rule, {tokens, table}, {}, name)[0];
}

}  // namespace millrace::runtime
