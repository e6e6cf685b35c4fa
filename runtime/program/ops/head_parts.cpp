#include "kernels/head_parts.hpp"

#include <fmt/format.h>

#include <array>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::is_shared_part;

constexpr std::size_t most_parts = 4;

/// The kernel's options, and the width of a head's share of every part, from which the results' types follow.
struct SplitHeadsOptions {
  std::int64_t heads = 1;
  std::int64_t shared = 0;
  std::vector<std::int64_t> widths;

  static constexpr auto members() {
    return std::tuple(kernels::member("heads", &SplitHeadsOptions::heads), kernels::member("shared", &SplitHeadsOptions::shared),
                      kernels::member("widths", &SplitHeadsOptions::widths));
  }
};

const OperationRule& join_heads_rule();

/// x [T, heads · (w₀ + w₁ + …)] → [T, heads · wᵢ] each, or [T, wᵢ], summed over the heads, where the part is shared.
class SplitHeads final : public OperationRule {
 public:
  std::string_view name() const override { return "split_heads"; }
  std::string_view output_suffix(std::size_t i) const override {
    constexpr std::array<std::string_view, most_parts> suffixes = {"", "1", "2", "3"};
    return suffixes.at(i);
  }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<SplitHeadsOptions>();
    std::vector<ValueType> outputs;
    std::int64_t head_dim = 0;
    for (std::size_t i = 0; i < options.widths.size(); ++i) {
      const auto width = options.widths[i];
      if (inputs.size() == 1 && inputs[0].shape.rank() == 2)
        outputs.push_back(
            {inputs[0].dtype,
             {inputs[0].shape.dimension(0), is_shared_part(i, options.widths.size(), options.shared) ? width : options.heads * width}});
      head_dim += width;
    }
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] == options.heads * head_dim, name(), inputs,
                   fmt::format("x [T, {} * {}]", options.heads, head_dim));
    return outputs;
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    const auto& options = builder.forward().attributes.as<SplitHeadsOptions>();
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < builder.forward().outputs.size(); ++i) gradients.push_back(builder.output_gradient(i));
    builder.add_gradient(
        0, builder.append(join_heads_rule(), std::move(gradients), kernels::HeadPartsOptions{options.heads, options.shared}, "dx")[0]);
  }

  /// The sums over heads.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<SplitHeadsOptions>();
    double additions = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (is_shared_part(i, outputs.size(), options.shared))
        additions += static_cast<double>(options.heads - 1) * rules::elements(outputs[i]);
    return {additions, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::split_heads}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    const auto& options = attributes.as<SplitHeadsOptions>();
    kernels::split_heads(context, inputs[0], {options.heads, options.shared}, outputs);
  }
};

/// [T, heads · w₀], …, the last `shared` of them [T, w] → [T, heads · (w₀ + …)].
class JoinHeads final : public OperationRule {
 public:
  std::string_view name() const override { return "join_heads"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<kernels::HeadPartsOptions>();
    bool fits = !inputs.empty() && inputs.size() <= most_parts && options.heads > 0 && options.shared >= 0 &&
                options.shared <= static_cast<std::int64_t>(inputs.size());
    std::int64_t width = 0;
    for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
      const auto& type = inputs[i];
      fits = rules::is_matrix(type) && type.dtype == inputs[0].dtype && type.shape.dimension(0) == inputs[0].shape.dimension(0) &&
             (is_shared_part(i, inputs.size(), options.shared) || type.shape[1] % options.heads == 0);
      if (fits) width += is_shared_part(i, inputs.size(), options.shared) ? type.shape[1] * options.heads : type.shape[1];
    }
    rules::require(fits, name(), inputs,
                   fmt::format("1 to {} parts [T, {} * width] of one dtype and length, the last {} of them [T, width]", most_parts,
                               options.heads, options.shared));
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), width}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SplitHeads rule;
    const auto& inputs = builder.forward().inputs;
    const auto& options = builder.forward().attributes.as<kernels::HeadPartsOptions>();
    SplitHeadsOptions split{options.heads, options.shared, {}};
    if (!rules::wants_any(builder, inputs.size())) return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto columns = builder.type(inputs[i]).shape[1];
      split.widths.push_back(is_shared_part(i, inputs.size(), options.shared) ? columns : columns / options.heads);
    }
    rules::add_gradients(builder, builder.append(rule, {builder.output_gradient(0)}, split, "dx"));
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::join_heads}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::join_heads(context, inputs, attributes.as<kernels::HeadPartsOptions>(), outputs[0]);
  }
};

const OperationRule& join_heads_rule() {
  static const JoinHeads rule;
  return rule;
}

}  // namespace

std::vector<ValueId> split_heads(ProgramBuilder& builder, ValueId x, std::int64_t heads, const std::vector<std::int64_t>& widths,
                                 std::string_view name) {
  static const SplitHeads rule;
  MILLRACE_CHECK(heads > 0 && !widths.empty() && widths.size() <= most_parts, ExitCode::internal, "runtime.program",
                 "a split of {} heads into {}, expected a head or more and 1 to {} parts", heads, widths.size(), most_parts);
  return builder.append(rule, {x}, SplitHeadsOptions{heads, 0, widths}, name);
}

ValueId join_heads(ProgramBuilder& builder, const std::vector<ValueId>& parts, const kernels::HeadPartsOptions& options,
                   std::string_view name) {
  return builder.append(join_heads_rule(), parts, options, name)[0];
}

}  // namespace millrace::runtime
