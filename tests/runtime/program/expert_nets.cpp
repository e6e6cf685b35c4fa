#include "tests/runtime/program/expert_nets.hpp"

#include "kernels/reference/element.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::reference::load;
using kernels::reference::store;

/// An operation of plain loops on a CPU.
class Loops : public OperationRule {
 public:
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }
  KernelRows kernel_rows() const override { return {}; }
};

struct ChoiceOptions {
  std::int64_t chosen = 1, experts = 1;
  static constexpr auto members() {
    return std::tuple(kernels::member("chosen", &ChoiceOptions::chosen), kernels::member("experts", &ChoiceOptions::experts));
  }
};

class ExpertsOfTokens final : public Loops {
 public:
  std::string_view name() const override { return "experts_of_tokens"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 1 && inputs[0].dtype == DType::i32 && inputs[0].shape.rank() == 1, name(), inputs, "tokens i32 [T]");
    return {{DType::i32, {inputs[0].shape.dimension(0), attributes.as<ChoiceOptions>().chosen}}};
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<ChoiceOptions>();
    for (std::int64_t i = 0; i < outputs[0].elements(); ++i) {
      const std::int64_t token = inputs[0].as<std::int32_t>()[i / options.chosen];
      outputs[0].as<std::int32_t>()[i] = static_cast<std::int32_t>((token * token + i % options.chosen) % options.experts);
    }
  }
};

struct ColumnOptions {
  std::int64_t columns = 1, width = 1;
  DType dtype = DType::f32;
  static constexpr auto members() {
    return std::tuple(kernels::member("columns", &ColumnOptions::columns), kernels::member("width", &ColumnOptions::width),
                      kernels::member("dtype", &ColumnOptions::dtype));
  }
};

class LeadingColumnsGradient final : public Loops {
 public:
  std::string_view name() const override { return "leading_columns_gradient"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<ColumnOptions>();
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] == options.columns, name(), inputs, "dy");
    return {{options.dtype, {inputs[0].shape.dimension(0), options.width}}};
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<ColumnOptions>();
    for (std::int64_t i = 0; i < outputs[0].elements(); ++i) {
      const std::int64_t column = i % options.width;
      store(outputs[0], i, column < options.columns ? load(inputs[0], i / options.width * options.columns + column) : 0.0F);
    }
  }
};

class LeadingColumns final : public Loops {
 public:
  std::string_view name() const override { return "leading_columns"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<ColumnOptions>();
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] == options.width, name(), inputs, "x");
    return {{DType::f32, {inputs[0].shape.dimension(0), options.columns}}};
  }
  void input_gradient(GradientBuilder& builder) const override {
    static const LeadingColumnsGradient rule;
    if (builder.wants(0))
      builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0)}, builder.forward().attributes, "dx")[0]);
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<ColumnOptions>();
    for (std::int64_t i = 0; i < outputs[0].elements(); ++i)
      outputs[0].as<float>()[i] = load(inputs[0], i / options.columns * options.width + i % options.columns);
  }
};

}  // namespace

ValueId experts_of_tokens(ProgramBuilder& builder, std::int64_t chosen, std::int64_t experts, std::string_view name) {
  static const ExpertsOfTokens rule;
  return builder.append(rule, {builder.batch("tokens")}, ChoiceOptions{chosen, experts}, name)[0];
}

ValueId leading_columns(ProgramBuilder& builder, ValueId x, std::int64_t columns, std::string_view name) {
  static const LeadingColumns rule;
  const ValueType& type = builder.type(x);
  return builder.append(rule, {x}, ColumnOptions{columns, type.shape[1], type.dtype}, name)[0];
}

std::vector<std::pair<std::string, std::function<ValueId(ProgramBuilder&, ValueId)>>> expert_bodies() {
  const auto between = [](ProgramBuilder& b, ValueId rows) {
    return activate(b, kernels::Activation::silu, linear(b, rows, b.parameter("expert", {8, 8}), "expert"), "silu");
  };
  return {{"rows weighted behind their experts",
           [between](ProgramBuilder& b, ValueId x) {
             const auto places = sort_by_expert(b, experts_of_tokens(b, 2, 3, "experts"), 3, "sort").places;
             const auto rows = gather_rows(b, x, places, "gather");
             return combine_rows(b, between(b, rows), places, "combine", leading_columns(b, x, 2, "weights"));
           }},
          {"rows weighted before their experts", [between](ProgramBuilder& b, ValueId x) {
             const auto places = sort_by_expert(b, experts_of_tokens(b, 3, 3, "experts"), 3, "sort").places;
             const auto rows = gather_rows(b, x, places, "gather", leading_columns(b, x, 3, "weights"));
             return combine_rows(b, between(b, rows), places, "combine");
           }}};
}

}  // namespace millrace::runtime::testing
