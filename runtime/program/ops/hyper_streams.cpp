#include "kernels/hyper_streams.hpp"

#include <fmt/format.h>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

const OperationRule& expand_rule();
const OperationRule& reduce_rule();

/// The number of streams, which does not follow from the operands of every operation.
struct StreamsOptions {
  std::int64_t streams = 1;

  static constexpr auto members() { return std::tuple(kernels::member("streams", &StreamsOptions::streams)); }
};

/// The type with `factor` times the features, and with `count` of them.
ValueType wider(const ValueType& x, std::int64_t factor) { return {x.dtype, {x.shape.dimension(0), x.shape[1] * factor}}; }
ValueType gates_of(const ValueType& x, std::int64_t count) { return {x.dtype, {x.shape.dimension(0), count}}; }

/// What all of these operations have in common: they move about as many bytes as their operands have.
class StreamsRule : public OperationRule {
 public:
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    double elements = 0;
    for (const ValueType& type : inputs) elements += rules::elements(type);
    for (const ValueType& type : outputs) elements += rules::elements(type);
    return {2 * elements, rules::traffic(inputs, outputs)};
  }
};

/// x [T, D] → [T, k·D].
class ExpandStreams final : public StreamsRule {
 public:
  std::string_view name() const override { return "expand_streams"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, D]");
    return {wider(inputs[0], attributes.as<StreamsOptions>().streams)};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(reduce_rule(), {builder.output_gradient(0)}, builder.forward().attributes, "dx")[0]);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::expand_streams}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::expand_streams(context, inputs[0], outputs[0]);
  }
};

/// X [T, k·D] → [T, D].
class ReduceStreams final : public StreamsRule {
 public:
  std::string_view name() const override { return "reduce_streams"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t k = attributes.as<StreamsOptions>().streams;
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]) && inputs[0].shape[1] % k == 0, name(), inputs,
                   fmt::format("X [T, {} * D]", k));
    return {gates_of(inputs[0], inputs[0].shape[1] / k)};
  }

  void input_gradient(GradientBuilder& builder) const override {
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(expand_rule(), {builder.output_gradient(0)}, builder.forward().attributes, "dx")[0]);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::reduce_streams}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::reduce_streams(context, inputs[0], outputs[0]);
  }
};

/// dy [T, D], X [T, k·D], pre [T, k] → dX, d_pre.
class CollectStreamsGradient final : public StreamsRule {
 public:
  std::string_view name() const override { return "collect_streams_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "pre"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && inputs[1] == wider(inputs[0], inputs[2].shape[1]), name(), inputs,
                   "dy [T, D], X [T, k * D], pre [T, k]");
    return {inputs[1], inputs[2]};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::collect_streams_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::collect_streams_gradient(context, inputs[0], inputs[1], inputs[2], outputs[0], outputs[1]);
  }
};

/// X [T, k·D], pre [T, k] → [T, D].
class CollectStreams final : public StreamsRule {
 public:
  std::string_view name() const override { return "collect_streams"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[1].shape[1] >= 1 &&
                       inputs[0].shape[1] % inputs[1].shape[1] == 0 && inputs[1] == gates_of(inputs[0], inputs[1].shape[1]),
                   name(), inputs, "X [T, k * D], pre [T, k]");
    return {gates_of(inputs[0], inputs[0].shape[1] / inputs[1].shape[1])};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const CollectStreamsGradient rule;
    if (!builder.wants(0) && !builder.wants(1)) return;
    const auto gradients = builder.append(rule, {builder.output_gradient(0), builder.input(0), builder.input(1)}, {}, "dx");
    for (std::size_t i = 0; i < 2; ++i)
      if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::collect_streams}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::collect_streams(context, inputs[0], inputs[1], outputs[0]);
  }
};

/// Whether X [T, k·D], v [T, D], post [T, k] and map [T, k·k] belong together.
bool are_streams(std::span<const ValueType> inputs) {
  if (inputs.size() != 4) return false;
  for (const ValueType& type : inputs)
    if (!rules::is_matrix(type)) return false;
  const std::int64_t k = inputs[2].shape[1];
  return inputs[0] == wider(inputs[1], k) && inputs[2] == gates_of(inputs[1], k) && inputs[3] == gates_of(inputs[1], k * k);
}

/// dY [T, k·D], X, v, post, map → dX, dv, d_post, d_map.
class SpreadStreamsGradient final : public StreamsRule {
 public:
  std::string_view name() const override { return "spread_streams_gradient"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : i == 1 ? "branch" : i == 2 ? "post" : "map"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 5 && inputs[0] == inputs[1] && are_streams(inputs.subspan(1)), name(), inputs,
                   "dY and X [T, k * D], v [T, D], post [T, k], map [T, k * k]");
    return {inputs.begin() + 1, inputs.end()};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::spread_streams_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::spread_streams_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], outputs[0], outputs[1], outputs[2],
                                     outputs[3]);
  }
};

/// X, v, post, map → [T, k·D].
class SpreadStreams final : public StreamsRule {
 public:
  std::string_view name() const override { return "spread_streams"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_streams(inputs), name(), inputs, "X [T, k * D], v [T, D], post [T, k], map [T, k * k]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SpreadStreamsGradient rule;
    std::vector<ValueId> operands{builder.output_gradient(0)};
    bool wanted = false;
    for (std::size_t i = 0; i < 4; ++i) wanted = wanted || builder.wants(i);
    if (!wanted) return;
    for (std::size_t i = 0; i < 4; ++i) operands.push_back(builder.input(i));
    const auto gradients = builder.append(rule, std::move(operands), {}, "dx");
    for (std::size_t i = 0; i < 4; ++i)
      if (builder.wants(i)) builder.add_gradient(i, gradients[i]);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::spread_streams}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::spread_streams(context, inputs[0], inputs[1], inputs[2], inputs[3], outputs[0]);
  }
};

const OperationRule& expand_rule() {
  static const ExpandStreams rule;
  return rule;
}

const OperationRule& reduce_rule() {
  static const ReduceStreams rule;
  return rule;
}

}  // namespace

ValueId expand_streams(ProgramBuilder& builder, ValueId x, std::int64_t streams, std::string_view name) {
  return builder.append(expand_rule(), {x}, StreamsOptions{streams}, name)[0];
}

ValueId reduce_streams(ProgramBuilder& builder, ValueId x, std::int64_t streams, std::string_view name) {
  return builder.append(reduce_rule(), {x}, StreamsOptions{streams}, name)[0];
}

ValueId collect_streams(ProgramBuilder& builder, ValueId streams, ValueId pre, std::string_view name) {
  static const CollectStreams rule;
  return builder.append(rule, {streams, pre}, {}, name)[0];
}

ValueId spread_streams(ProgramBuilder& builder, ValueId streams, ValueId v, ValueId post, ValueId map, std::string_view name) {
  static const SpreadStreams rule;
  return builder.append(rule, {streams, v, post, map}, {}, name)[0];
}

}  // namespace millrace::runtime
