#include <fmt/format.h>

#include <array>

#include "kernels/columns.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

const OperationRule& join_rule();
const OperationRule& split_rule();

constexpr std::size_t most_parts = 4;

struct SplitOptions {
  std::vector<std::int64_t> widths;

  static constexpr auto members() { return std::tuple(kernels::member("widths", &SplitOptions::widths)); }
};

/// [T, N₀], [T, N₁], … → [T, N₀ + N₁ + …], at most four. Each of the two operations is the gradient of the other.
class Join final : public OperationRule {
 public:
  std::string_view name() const override { return "join"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    std::int64_t width = 0;
    bool fits = !inputs.empty();
    for (const auto& type : inputs) {
      fits = fits && rules::is_matrix(type) && type.dtype == inputs[0].dtype && type.shape.dimension(0) == inputs[0].shape.dimension(0);
      if (fits) width += type.shape[1];
    }
    rules::require(fits, name(), inputs, "matrices of one dtype and length");
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), width}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    const std::size_t parts = builder.forward().inputs.size();
    SplitOptions options;
    bool wanted = false;
    for (std::size_t i = 0; i < parts; ++i) {
      options.widths.push_back(builder.type(builder.forward().inputs[i]).shape[1]);
      wanted = wanted || builder.wants(i);
    }
    if (!wanted) return;
    const std::vector<ValueId> gradients = builder.append(split_rule(), {builder.output_gradient(0)}, options, "dx");
    for (std::size_t i = 0; i < parts; ++i)
      if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::join_columns}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::join_columns(context, inputs, outputs[0]);
  }
};

class Split final : public OperationRule {
 public:
  std::string_view name() const override { return "split"; }
  std::string_view output_suffix(std::size_t i) const override {
    constexpr std::array<std::string_view, most_parts> suffixes = {"", "1", "2", "3"};
    return suffixes.at(i);
  }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    std::vector<ValueType> outputs;
    std::int64_t width = 0;
    for (const auto part : attributes.as<SplitOptions>().widths) {
      if (inputs.size() == 1 && inputs[0].shape.rank() == 2) outputs.push_back({inputs[0].dtype, {inputs[0].shape.dimension(0), part}});
      width += part;
    }
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] == width, name(), inputs,
                   fmt::format("x [T, {}]", width));
    return outputs;
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < builder.forward().outputs.size(); ++i) gradients.push_back(builder.output_gradient(i));
    builder.add_gradient(0, builder.append(join_rule(), std::move(gradients), {}, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::split_columns}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::split_columns(context, inputs[0], outputs);
  }
};

const OperationRule& join_rule() {
  static const Join rule;
  return rule;
}

const OperationRule& split_rule() {
  static const Split rule;
  return rule;
}

}  // namespace

ValueId join(ProgramBuilder& builder, const std::vector<ValueId>& parts, std::string_view name) {
  MILLRACE_CHECK(!parts.empty() && parts.size() <= most_parts, ExitCode::internal, "runtime.program",
                 "{} matrices joined, expected 1 to {}", parts.size(), most_parts);
  return builder.append(join_rule(), parts, {}, name)[0];
}

std::vector<ValueId> split(ProgramBuilder& builder, ValueId x, const std::vector<std::int64_t>& widths, std::string_view name) {
  MILLRACE_CHECK(!widths.empty() && widths.size() <= most_parts, ExitCode::internal, "runtime.program", "a split into {}, expected 1 to {}",
                 widths.size(), most_parts);
  return builder.append(split_rule(), {x}, SplitOptions{widths}, name);
}

}  // namespace millrace::runtime
