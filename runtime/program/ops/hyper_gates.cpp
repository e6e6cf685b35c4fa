#include "kernels/hyper_gates.hpp"

#include <fmt/format.h>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::HyperGatesOptions;

/// The numbers of a token: of the gates, and of x, from which they are made.
std::int64_t gates_width(const HyperGatesOptions& options) { return 2 * options.streams + options.streams * options.streams; }
std::int64_t logits_width(const HyperGatesOptions& options) { return 2 * options.streams + residual_logits(options); }

/// Divisions and exponentials are counted as operations of one FLOP.
double flops_of(const ValueType& x, const HyperGatesOptions& options) {
  const auto map = static_cast<double>(options.streams * options.streams);
  const double steps = options.lite ? static_cast<double>(residual_logits(options)) : 2 * static_cast<double>(options.iterations);
  return static_cast<double>(x.shape[0]) * steps * 2 * map;
}

/// dy, x → dx; the gates are computed again.
class HyperGatesInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "hyper_gates_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<HyperGatesOptions>();
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) &&
                       inputs[0].shape[1] == gates_width(options) && inputs[1].shape[1] == logits_width(options),
                   name(), inputs, fmt::format("dy [T, {}] and x [T, {}]", gates_width(options), logits_width(options)));
    return {inputs[1]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {3 * flops_of(inputs[1], attributes.as<HyperGatesOptions>()), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::hyper_gates_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::hyper_gates_input_gradient(context, inputs[0], inputs[1], attributes.as<HyperGatesOptions>(), outputs[0]);
  }
};

class HyperGates final : public OperationRule {
 public:
  std::string_view name() const override { return "hyper_gates"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<HyperGatesOptions>();
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] == logits_width(options), name(), inputs,
                   fmt::format("x [T, {}] for {} streams", logits_width(options), options.streams));
    return {{inputs[0].dtype, {inputs[0].shape.dimension(0), gates_width(options)}}};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const HyperGatesInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(0)}, builder.forward().attributes, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    return {flops_of(inputs[0], attributes.as<HyperGatesOptions>()), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::hyper_gates}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::hyper_gates(context, inputs[0], attributes.as<HyperGatesOptions>(), outputs[0]);
  }
};

}  // namespace

HyperGateParts hyper_gates(ProgramBuilder& builder, ValueId x, const HyperGatesOptions& options, std::string_view name) {
  static const HyperGates rule;
  const ValueId gates = builder.append(rule, {x}, options, name)[0];
  const std::int64_t k = options.streams;
  const std::vector<ValueId> parts = split(builder, gates, {k, k, k * k}, std::string(name) + ".parts");
  return {parts[0], parts[1], parts[2]};
}

}  // namespace millrace::runtime
