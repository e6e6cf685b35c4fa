#include "kernels/expert_rows.hpp"

#include <utility>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// i32 [T, K], such as the experts of tokens and the places of their rows.
bool are_choices(const ValueType& type) { return type.dtype == kernels::DType::i32 && type.shape.rank() == 2 && type.shape[1] >= 1; }

/// f32 [T, K] for these choices.
ValueType numbers_of(const ValueType& choices) { return {kernels::DType::f32, choices.shape}; }

/// The rows [T·K, D] of tokens [T, D]. A count that bounds T bounds them too.
ValueType rows_of(const ValueType& tokens, const ValueType& places) {
  return {tokens.dtype, {tokens.shape.dimension(0).times(places.shape[1]), tokens.shape.dimension(1)}};
}

bool are_tokens_with_places(const ValueType& tokens, const ValueType& places) {
  return rules::is_matrix(tokens) && are_choices(places) && places.shape.dimension(0) == tokens.shape.dimension(0);
}

/// The number of experts, which does not follow from the operand's shape.
struct SortByExpertOptions {
  std::int64_t experts = 0;

  static constexpr auto members() { return std::tuple(kernels::member("experts", &SortByExpertOptions::experts)); }
};

class SortByExpert final : public OperationRule {
 public:
  std::string_view name() const override { return "sort_by_expert"; }
  RowGroups row_groups() const override { return RowGroups::of_sort; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "offsets"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto experts = attributes.as<SortByExpertOptions>().experts;
    rules::require(inputs.size() == 1 && are_choices(inputs[0]) && experts >= 1, name(), inputs,
                   fmt::format("experts i32 [T, K], each of {} experts", experts));
    return {inputs[0], {kernels::DType::i32, {experts + 1}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::sort_by_expert}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::sort_by_expert(context, inputs[0], outputs[0], outputs[1]);
  }
};

/// x [T, D], rows [T·K, D], places i32 [T, K] → f32 [T, K].
class RowProducts final : public OperationRule {
 public:
  std::string_view name() const override { return "row_products"; }
  RowGroups row_groups() const override { return RowGroups::none; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && are_tokens_with_places(inputs[0], inputs[2]) && inputs[1] == rows_of(inputs[0], inputs[2]), name(),
                   inputs, "x [T, D], rows [T * K, D], places i32 [T, K]");
    return {numbers_of(inputs[2])};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[1]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::row_products}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::row_products(context, inputs[0], inputs[1], inputs[2], outputs[0]);
  }
};

/// The operands of gather_rows and combine_rows: tokens or rows, places and, if there are some, weights.
bool has_weights(std::size_t operands) { return operands == 3; }

std::vector<ValueId> with_weights(GradientBuilder& builder, std::vector<ValueId> operands) {
  if (has_weights(builder.forward().inputs.size())) operands.push_back(builder.input(2));
  return operands;
}

/// The gradient of the weights: the product of each token's `tokens` with its `rows`.
void add_weights_gradient(GradientBuilder& builder, ValueId tokens, ValueId rows) {
  static const RowProducts rule;
  builder.add_gradient(2, builder.append(rule, {tokens, rows, builder.input(1)}, {}, "d_weights")[0]);
}
bool wants_weights_gradient(GradientBuilder& builder) { return has_weights(builder.forward().inputs.size()) && builder.wants(2); }

const OperationRule& combine_rows_rule();

class GatherRows final : public OperationRule {
 public:
  std::string_view name() const override { return "gather_rows"; }
  RowGroups row_groups() const override { return RowGroups::of_places; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require((inputs.size() == 2 || has_weights(inputs.size())) && are_tokens_with_places(inputs[0], inputs[1]) &&
                       (inputs.size() == 2 || inputs[2] == numbers_of(inputs[1])),
                   name(), inputs, "x [T, D], places i32 [T, K] (and weights f32 [T, K])");
    return {rows_of(inputs[0], inputs[1])};
  }

  void input_gradient(GradientBuilder& builder) const override {
    const auto d_rows = builder.output_gradient(0);
    if (builder.wants(0))
      builder.add_gradient(0, builder.append(combine_rows_rule(), with_weights(builder, {d_rows, builder.input(1)}), {}, "dx")[0]);
    if (wants_weights_gradient(builder)) add_weights_gradient(builder, builder.input(0), d_rows);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {has_weights(inputs.size()) ? rules::elements(outputs[0]) : 0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::gather_rows}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::gather_rows(context, inputs[0], inputs[1], has_weights(inputs.size()) ? &inputs[2] : nullptr, outputs[0]);
  }
};

const OperationRule& gather_rows_rule() {
  static const GatherRows rule;
  return rule;
}

class CombineRows final : public OperationRule {
 public:
  std::string_view name() const override { return "combine_rows"; }
  RowGroups row_groups() const override { return RowGroups::none; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    bool fits = (inputs.size() == 2 || has_weights(inputs.size())) && rules::is_matrix(inputs[0]) && are_choices(inputs[1]) &&
                (inputs.size() == 2 || inputs[2] == numbers_of(inputs[1]));
    ValueType tokens;
    if (fits) {
      tokens = {inputs[0].dtype, {inputs[1].shape.dimension(0), inputs[0].shape.dimension(1)}};
      fits = inputs[0] == rows_of(tokens, inputs[1]);
    }
    rules::require(fits, name(), inputs, "rows [T * K, D], places i32 [T, K] (and weights f32 [T, K])");
    return {tokens};
  }

  void input_gradient(GradientBuilder& builder) const override {
    const auto dy = builder.output_gradient(0);
    if (builder.wants(0))
      builder.add_gradient(0, builder.append(gather_rows_rule(), with_weights(builder, {dy, builder.input(1)}), {}, "dx")[0]);
    if (wants_weights_gradient(builder)) add_weights_gradient(builder, dy, builder.input(0));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {(has_weights(inputs.size()) ? 2 : 1) * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::combine_rows}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::combine_rows(context, inputs[0], inputs[1], has_weights(inputs.size()) ? &inputs[2] : nullptr, outputs[0]);
  }
};

const OperationRule& combine_rows_rule() {
  static const CombineRows rule;
  return rule;
}

std::vector<ValueId> row_operands(ValueId tokens_or_rows, ValueId places, ValueId weights) {
  std::vector<ValueId> all{tokens_or_rows, places};
  if (weights.valid()) all.push_back(weights);
  return all;
}

}  // namespace

ExpertPlaces sort_by_expert(ProgramBuilder& builder, ValueId experts, std::int64_t experts_count, std::string_view name) {
  static const SortByExpert rule;
  const auto results = builder.append(rule, {experts}, SortByExpertOptions{experts_count}, name);
  return {results[0], results[1]};
}

ValueId gather_rows(ProgramBuilder& builder, ValueId x, ValueId places, std::string_view name, ValueId weights) {
  return builder.append(gather_rows_rule(), row_operands(x, places, weights), {}, name)[0];
}

ValueId combine_rows(ProgramBuilder& builder, ValueId rows, ValueId places, std::string_view name, ValueId weights) {
  return builder.append(combine_rows_rule(), row_operands(rows, places, weights), {}, name)[0];
}

}  // namespace millrace::runtime
