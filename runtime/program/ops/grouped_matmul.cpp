#include "kernels/grouped_matmul.hpp"

#include <utility>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::GroupedMatmulOptions;

bool is_stack(const ValueType& type) {
  return type.shape.rank() == 3 && (type.dtype == kernels::DType::f32 || type.dtype == kernels::DType::bf16);
}

bool are_offsets(const ValueType& type) {
  return type.dtype == kernels::DType::i32 && type.shape.rank() == 1 && !type.shape.bounded() && type.shape[0] >= 2;
}

/// Whether these are the offsets of the groups of one source or of several, with as many experts as `experts` says.
bool are_offsets(const ValueType& type, const kernels::Dimension& experts) {
  return are_offsets(type) && !experts.bounded() && experts.capacity > 0 && (type.shape[0] - 1) % experts.capacity == 0;
}

/// rows [R, K], a stack of weights, offsets i32 [E + 1] or those of several sources, and, if the options say so, a bias f32 [E, N] → [R,
/// N]. The rules differ in whether a weight is [N, K] or [K, N].
class GroupedProduct : public OperationRule {
 public:
  explicit GroupedProduct(bool transpose_b) : transpose_b_(transpose_b) {}

  /// The attributes of its operations.
  [[nodiscard]] GroupedMatmulOptions form(bool bias) const { return {.transpose_b = transpose_b_, .bias = bias}; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<GroupedMatmulOptions>();
    const std::size_t inner = transpose_b_ ? 2 : 1, outer = transpose_b_ ? 1 : 2;  // axes of a weight
    const bool multiplies = inputs.size() == (options.bias ? 4U : 3U) && rules::is_matrix(inputs[0]) && is_stack(inputs[1]) &&
                            inputs[0].dtype == inputs[1].dtype && inputs[0].shape.dimension(1) == inputs[1].shape.dimension(inner) &&
                            are_offsets(inputs[2], inputs[1].shape.dimension(0));
    rules::require(multiplies, name(), inputs, operands(options.bias));
    const auto& weight = inputs[1].shape;
    if (options.bias)
      rules::require(inputs[3] == ValueType{kernels::DType::f32, {weight.dimension(0), weight.dimension(outer)}}, name(), inputs,
                     "a bias f32 [E, N]");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), weight.dimension(outer)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    if (inputs[0].shape[0] == 0) return {};  // weights are not read
    const auto inner = static_cast<double>(inputs[0].shape[1]);
    const double added = attributes.as<GroupedMatmulOptions>().bias ? rules::elements(outputs[0]) : 0;
    return {2 * rules::elements(outputs[0]) * inner + added, rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return kernels::grouped_matmul_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype, outputs[0].dtype,
                                                 with_epilogue(attributes), processor);
  }

  Epilogues epilogues() const override {
    return {.packed = Epilogues::Weight{1, transpose_b_ ? WeightForm::packed_turned : WeightForm::packed}};
  }

  RowGroups row_groups() const override { return RowGroups::by_table; }
  KernelRows kernel_rows() const override { return {&kernels::table::grouped_matmul}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto options = with_epilogue(attributes);
    kernels::grouped_matmul(context, inputs[0], inputs[1], inputs[2], outputs[0], options, scratch, options.bias ? &inputs[3] : nullptr);
  }

 protected:
  [[nodiscard]] virtual std::string_view operands(bool with_bias) const = 0;

 private:
  static GroupedMatmulOptions with_epilogue(const Attributes& attributes) {
    auto options = attributes.as<GroupedMatmulOptions>();
    options.packed_b = attributes.epilogue.packed;
    return options;
  }

  bool transpose_b_;
};

/// The number of experts, which does not follow from offsets of several sources.
struct GroupedGradientOptions {
  std::int64_t experts = 0;

  static constexpr auto members() { return std::tuple(kernels::member("experts", &GroupedGradientOptions::experts)); }
};

/// The attributes of both gradients of a product's parameters.
GroupedGradientOptions gradient_options(GradientBuilder& builder) { return {builder.type(builder.input(1)).shape[0]}; }

/// dw[e] += a_eᵀ · b_e: a [R, M], b [R, N], offsets i32 [E + 1] → f32 [E, M, N].
class GroupedWeightGradient : public OperationRule {
 public:
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t experts = attributes.as<GroupedGradientOptions>().experts;
    const bool multiplies = inputs.size() == 3 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) &&
                            inputs[0].dtype == inputs[1].dtype && inputs[0].shape.dimension(0) == inputs[1].shape.dimension(0) &&
                            are_offsets(inputs[2], experts);
    rules::require(multiplies, name(), inputs, operands());
    return {{kernels::DType::f32, {experts, inputs[0].shape.dimension(1), inputs[1].shape.dimension(1)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    if (inputs[0].shape[0] == 0) return {};
    return {2 * rules::elements(inputs[0]) * static_cast<double>(inputs[1].shape[1]), rules::traffic(inputs, outputs, true)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes&,
                            const kernels::Processor& processor) const override {
    return kernels::grouped_weight_gradient_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype, processor);
  }

  RowGroups row_groups() const override { return RowGroups::by_table; }
  KernelRows kernel_rows() const override { return {&kernels::table::grouped_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch scratch) const override {
    kernels::grouped_weight_gradient(context, inputs[0], inputs[1], inputs[2], outputs[0], scratch);
  }

 protected:
  [[nodiscard]] virtual std::string_view operands() const = 0;
};

/// db[e] += the rows of group e: dy [R, N], offsets i32 [E + 1] → f32 [E, N].
class GroupedBiasGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "grouped_bias_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t experts = attributes.as<GroupedGradientOptions>().experts;
    const bool fits = inputs.size() == 2 && rules::is_matrix(inputs[0]) && are_offsets(inputs[1], experts);
    rules::require(fits, name(), inputs, "dy [R, N] and offsets i32 [E + 1]");
    return {{kernels::DType::f32, {experts, inputs[0].shape.dimension(1)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    if (inputs[0].shape[0] == 0) return {};
    return {rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  RowGroups row_groups() const override { return RowGroups::by_table; }
  KernelRows kernel_rows() const override { return {&kernels::table::grouped_bias_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::grouped_bias_gradient(context, inputs[0], inputs[1], outputs[0]);
  }
};

/// dx = dy · w[e]: dy [R, N], w [E, N, K] → [R, K].
class GroupedLinearInputGradient final : public GroupedProduct {
 public:
  GroupedLinearInputGradient() : GroupedProduct(false) {}
  std::string_view name() const override { return "grouped_linear_input_gradient"; }

 protected:
  std::string_view operands(bool) const override { return "dy [R, N] and weight [E, N, K] of one dtype, and offsets i32 [E + 1]"; }
};

/// dw[e] += dy_eᵀ · x_e: f32 [E, N, K].
class GroupedLinearWeightGradient final : public GroupedWeightGradient {
 public:
  std::string_view name() const override { return "grouped_linear_weight_gradient"; }

 protected:
  std::string_view operands() const override { return "dy [R, N] and x [R, K] of one dtype, and offsets i32 [E + 1]"; }
};

/// The weight [E, K, N]. dx = dy · w[e]ᵀ.
class GroupedInputMajorInputGradient final : public GroupedProduct {
 public:
  GroupedInputMajorInputGradient() : GroupedProduct(true) {}
  std::string_view name() const override { return "grouped_linear_input_major_input_gradient"; }

 protected:
  std::string_view operands(bool) const override { return "dy [R, N] and weight [E, K, N] of one dtype, and offsets i32 [E + 1]"; }
};

/// dw[e] += x_eᵀ · dy_e: f32 [E, K, N].
class GroupedInputMajorWeightGradient final : public GroupedWeightGradient {
 public:
  std::string_view name() const override { return "grouped_linear_input_major_weight_gradient"; }

 protected:
  std::string_view operands() const override { return "x [R, K] and dy [R, N] of one dtype, and offsets i32 [E + 1]"; }
};

/// The gradients of both forward rules: operand 0 the rows, 1 the weight, 2 the offsets, 3 the bias.
void add_input_gradient(GradientBuilder& builder, const GroupedProduct& rule) {
  if (!builder.wants(0)) return;
  const auto options = rule.form(false);
  builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(1), builder.input(2)}, options, "dx")[0]);
}

void add_bias_gradient(GradientBuilder& builder) {
  static const GroupedBiasGradient rule;
  if (builder.forward().attributes.as<GroupedMatmulOptions>().bias)
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(2)}, {builder.accumulator(3)}, gradient_options(builder),
                              "db");
}

class GroupedLinear final : public GroupedProduct {
 public:
  GroupedLinear() : GroupedProduct(true) {}
  std::string_view name() const override { return "grouped_linear"; }

  void input_gradient(GradientBuilder& builder) const override {
    static const GroupedLinearInputGradient rule;
    add_input_gradient(builder, rule);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const GroupedLinearWeightGradient rule;
    builder.append_accumulate(rule, {builder.output_gradient(0), builder.input(0), builder.input(2)}, {builder.accumulator(1)},
                              gradient_options(builder), "dw");
    add_bias_gradient(builder);
  }

 protected:
  std::string_view operands(bool with_bias) const override {
    return with_bias ? "rows [R, K] and weight [E, N, K] of one dtype, offsets i32 [E + 1], and a bias f32 [E, N]"
                     : "rows [R, K] and weight [E, N, K] of one dtype, and offsets i32 [E + 1]";
  }
};

class GroupedLinearInputMajor final : public GroupedProduct {
 public:
  GroupedLinearInputMajor() : GroupedProduct(false) {}
  std::string_view name() const override { return "grouped_linear_input_major"; }

  void input_gradient(GradientBuilder& builder) const override {
    static const GroupedInputMajorInputGradient rule;
    add_input_gradient(builder, rule);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const GroupedInputMajorWeightGradient rule;
    builder.append_accumulate(rule, {builder.input(0), builder.output_gradient(0), builder.input(2)}, {builder.accumulator(1)},
                              gradient_options(builder), "dw");
    add_bias_gradient(builder);
  }

 protected:
  std::string_view operands(bool with_bias) const override {
    return with_bias ? "rows [R, K] and weight [E, K, N] of one dtype, offsets i32 [E + 1], and a bias f32 [E, N]"
                     : "rows [R, K] and weight [E, K, N] of one dtype, and offsets i32 [E + 1]";
  }
};

ValueId append_product(ProgramBuilder& builder, const GroupedProduct& rule, std::vector<ValueId> inputs, ValueId bias,
                       std::string_view name) {
  if (bias.valid()) inputs.push_back(bias);
  return builder.append(rule, std::move(inputs), rule.form(bias.valid()), name)[0];
}

}  // namespace

ValueId grouped_linear(ProgramBuilder& builder, ValueId rows, ValueId weight, ValueId offsets, std::string_view name, ValueId bias) {
  static const GroupedLinear rule;
  return append_product(builder, rule, {rows, weight, offsets}, bias, name);
}

ValueId grouped_linear_input_major(ProgramBuilder& builder, ValueId rows, ValueId weight, ValueId offsets, std::string_view name,
                                   ValueId bias) {
  static const GroupedLinearInputMajor rule;
  return append_product(builder, rule, {rows, weight, offsets}, bias, name);
}

}  // namespace millrace::runtime
