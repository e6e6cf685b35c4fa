#pragma once

#include "runtime/program/gradient_builder.hpp"
#include "tests/layers/llama_variant.hpp"

/// A llama whose every decoder layer adds a loss term, as layers with experts do: the smallest family with a term in every stage.
namespace millrace::layers::testing {

inline constexpr double activity_weight = 0.25;

/// x f32 [T, D] and the term's scale → 2 · x · scale.
class ActivityGradient final : public LoopOperation {
 public:
  std::string_view name() const override { return "activity_gradient"; }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i)
      outputs[0].as<float>()[i] = 2.0F * inputs[0].as<float>()[i] * inputs[1].as<float>()[0];
  }
};

/// x f32 [T, D] → Σ x² over all elements, f64 [1]: a loss term.
class Activity final : public LoopOperation {
 public:
  std::string_view name() const override { return "activity"; }
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType>, const runtime::Attributes&) const override {
    return {{kernels::DType::f64, {1}}};
  }
  void input_gradient(runtime::GradientBuilder& builder) const override {
    static const ActivityGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.input(0), builder.loss_scale()}, {}, "dx")[0]);
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    double sum = 0;
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i) sum += static_cast<double>(inputs[0].as<float>()[i]) * inputs[0].as<float>()[i];
    *outputs[0].as<double>() = sum;
  }
};

class ActivityFamily final : public LlamaVariant {
 public:
  ActivityFamily() : LlamaVariant("activity") {}
  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& x) const override {
    static const Activity rule;
    const runtime::ValueId y = llama().layer(builder, model, index, x);
    builder.loss_term({.name = "activity_loss",
                       .weight = activity_weight,
                       .denominator = runtime::Denominator::microbatches,
                       .divisor = static_cast<double>(model.layers.size()),
                       .auxiliary = true},
                      builder.append(rule, {y}, {}, "activity")[0]);
    return y;
  }
};

}  // namespace millrace::layers::testing
