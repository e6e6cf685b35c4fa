// One idea: a new operation and a new layer, end to end. docs/adding_a_layer.md tells the story of this file, part by part, and where each
// part has its place in the tree; a test holds the page and the file together.
//
// The layer is an MLP without a gate, down(relu(up(x))²), from Primer (So et al., arXiv 2109.08668).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/kernel_table.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/base/thread_team.hpp"
#include "runtime/engine/sequential_trainer.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

using namespace millrace;

// [contract]
namespace millrace::kernels {

/// y = max(x, 0)², elementwise, f32. Does not depend on the thread count.
void squared_relu(const ExecutionContext& context, const Tensor& x, const Tensor& y);

/// dx = dy · 2 max(x, 0).
void squared_relu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& dx);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(squared_relu)> squared_relu("squared_relu");
inline constinit Kernel<decltype(squared_relu_input_gradient)> squared_relu_input_gradient("squared_relu_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
// [end]

// [checks]
namespace millrace::kernels {

void squared_relu(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  constexpr const char* component = "kernels.squared_relu";
  check_operand(component, "x", x, x.shape, {DType::f32});
  check_operand(component, "y", y, x.shape, {DType::f32});
  table::squared_relu(context, x, y);
}

void squared_relu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  constexpr const char* component = "kernels.squared_relu_input_gradient";
  check_operand(component, "x", x, x.shape, {DType::f32});
  check_operand(component, "dy", dy, x.shape, {DType::f32});
  check_operand(component, "dx", dx, x.shape, {DType::f32});
  table::squared_relu_input_gradient(context, dy, x, dx);
}

}  // namespace millrace::kernels
// [end]

// [loops]
namespace millrace::kernels::cpu {
namespace {

void squared_relu(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  context.team().for_ranges(x.elements(), 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float positive = std::max(x.as<float>()[i], 0.0F);
      y.as<float>()[i] = positive * positive;
    }
  });
}

void squared_relu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  context.team().for_ranges(x.elements(), 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dx.as<float>()[i] = dy.as<float>()[i] * 2.0F * std::max(x.as<float>()[i], 0.0F);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::squared_relu, squared_relu},
    {Backend::cpu, table::squared_relu_input_gradient, squared_relu_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
// [end]

namespace millrace::runtime {
namespace {

// [gradient]
/// dy, x [T, F] → dx.
class SquaredReluInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "squared_relu_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && inputs[0] == inputs[1], name(), inputs, "dy and x of one type [T, F]");
    return {inputs[0]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {3 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::squared_relu_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::squared_relu_input_gradient(context, inputs[0], inputs[1], outputs[0]);
  }
};
// [end]

// [operation]
class SquaredRelu final : public OperationRule {
 public:
  std::string_view name() const override { return "squared_relu"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && rules::is_matrix(inputs[0]), name(), inputs, "x [T, F]");
    return {inputs[0]};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const SquaredReluInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, {builder.output_gradient(0), builder.input(0)}, {}, "dx")[0]);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * rules::elements(inputs[0]), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::squared_relu}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::squared_relu(context, inputs[0], outputs[0]);
  }
};
// [end]

}  // namespace

// [append]
/// max(x, 0)²: x [T, F] → [T, F].
ValueId squared_relu(ProgramBuilder& builder, ValueId x, std::string_view name) {
  static const SquaredRelu rule;
  return builder.append(rule, {x}, {}, name)[0];
}
// [end]

}  // namespace millrace::runtime

namespace millrace::layers {

// [layer]
/// The MLP of Primer (So et al., arXiv 2109.08668): down(relu(up(x))²), x [T, width] → [T, width].
/// Weights under `module`: up_proj [intermediate, width], down_proj [width, intermediate].
/// Labels: mlpwi (up), mlpwo (result).
runtime::ValueId squared_relu_mlp(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, std::int64_t intermediate,
                                  const std::string& module) {
  const auto up = runtime::linear(builder, x, builder.parameter(module + ".up_proj.weight", {intermediate, width}), "mlp.up_proj");
  const auto hidden = runtime::squared_relu(builder, up, "mlp.squared_relu");
  const auto down =
      runtime::linear(builder, hidden, builder.parameter(module + ".down_proj.weight", {width, intermediate}), "mlp.down_proj");
  builder.label(up, "mlpwi");
  builder.label(down, "mlpwo");
  return down;
}
// [end]

}  // namespace millrace::layers

namespace {

constexpr std::int64_t vocabulary = 12, width = 8, intermediate = 16, tokens = 8;

runtime::ForwardProgram write_forward() {
  runtime::ProgramBuilder builder({kernels::DType::f32, 1, tokens});
  const auto x = runtime::embedding(builder, builder.batch("tokens"), builder.parameter("table.weight", {vocabulary, width}), "table");
  builder.enter(0, "layers.0");
  const auto mlp = layers::squared_relu_mlp(builder, x, width, intermediate, "layers.0.mlp");
  const auto y = runtime::add(builder, x, mlp, "residual");
  builder.enter(-1, "");
  const auto head = builder.parameter("head.weight", {vocabulary, width});
  builder.loss_term({.name = "lm_loss"}, runtime::linear_cross_entropy(builder, y, head, builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

void fill_batch(std::int64_t, const runtime::BatchView& batch) {
  for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
    batch.tokens[t] = static_cast<std::int32_t>(t * 5 % vocabulary);
    batch.targets[t] = static_cast<std::int32_t>(t * 7 % vocabulary);
  }
}

/// The loop with its weights filled, everything derived under this policy.
runtime::SequentialTrainer make_loop(std::string_view policy, runtime::BackwardMode mode) {
  runtime::RankStage stage;
  stage.training = runtime::differentiate(write_forward(), runtime::RematerializationPolicy::parse(policy, {"mlpwi", "mlpwo"}));
  stage.parameters = runtime::parameters_of(stage.training, stage.stage);
  std::vector<runtime::RankStage> stages;
  stages.push_back(std::move(stage));
  runtime::RankOptions options;
  options.mode = mode;
  return {std::move(stages), options};
}

struct Gradient {
  std::vector<float> up;
  double largest_error = 0;  // against finite differences
};

/// The gradient of up_proj, and how far it is from measured slopes.
Gradient gradient_of(runtime::SequentialTrainer& loop, const kernels::ExecutionContext& context) {
  const auto& shard = loop.rank().stage(runtime::StageId(0)).shard();
  for (const auto& tensor : shard.tensors()) {
    unsigned state = static_cast<unsigned>(tensor.order) + 1;
    for (float& element : shard.master(tensor.name)) {
      state = state * 1664525U + 1013904223U;
      element = static_cast<float>(state >> 8) / static_cast<float>(1U << 24) - 0.5F;
    }
  }
  const std::string name = "layers.0.mlp.up_proj.weight";
  shard.refresh_copies(context);  // what programs read beside the masters: weights packed for products
  shard.zero_accumulators(context);
  static_cast<void>(loop.accumulate(context, 1, tokens, fill_batch));
  const auto tensor = shard.gradient(shard.layout().at(name));
  Gradient result{{tensor.as<float>(), tensor.as<float>() + tensor.elements()}, 0};
  const auto weights = shard.master(name);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    constexpr float step = 1e-2F;
    const auto loss_at = [&](float value) {
      const float before = std::exchange(weights[i], value);
      shard.refresh_copies(context);
      const double loss = loop.evaluate(context, 1, fill_batch).mean().total;
      weights[i] = before;
      return loss;
    };
    const double slope = (loss_at(weights[i] + step) - loss_at(weights[i] - step)) / (2.0 * step);
    result.largest_error = std::max(result.largest_error, std::abs(slope - static_cast<double>(result.up[i])));
  }
  return result;
}

}  // namespace

int main() {
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  auto plain = make_loop("none", runtime::BackwardMode::fused);
  auto split = make_loop("none", runtime::BackwardMode::split);
  auto recomputed = make_loop("full", runtime::BackwardMode::fused);
  const auto expected = gradient_of(plain, context);
  const bool same = gradient_of(split, context).up == expected.up && gradient_of(recomputed, context).up == expected.up;
  fmt::print("largest difference from a finite difference: {:.2e}\n", expected.largest_error);
  fmt::print("split backward and full rematerialisation: {}\n", same ? "the same bits" : "OTHER BITS");
  return same && expected.largest_error < 1e-3 ? 0 : 1;
}
