#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "layers/models/model_family.hpp"
#include "runtime/program/gradient_builder.hpp"

/// A llama whose every decoder layer adds a loss term, as layers with experts do: the smallest family with a term in every stage.
namespace millrace::layers::testing {

inline constexpr double activity_weight = 0.25;

/// x f32 [T, D] and the term's scale → 2 · x · scale.
class ActivityGradient final : public runtime::OperationRule {
 public:
  std::string_view name() const override { return "activity_gradient"; }
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType> inputs, const runtime::Attributes&) const override {
    return {inputs[0]};
  }
  runtime::Cost cost(std::span<const runtime::ValueType>, std::span<const runtime::ValueType>, const runtime::Attributes&) const override {
    return {};
  }
  runtime::KernelRows kernel_rows() const override { return {}; }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i)
      outputs[0].as<float>()[i] = 2.0F * inputs[0].as<float>()[i] * inputs[1].as<float>()[0];
  }
};

/// x f32 [T, D] → Σ x² over all elements, f64 [1]: a loss term.
class Activity final : public runtime::OperationRule {
 public:
  std::string_view name() const override { return "activity"; }
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType>, const runtime::Attributes&) const override {
    return {{kernels::DType::f64, {1}}};
  }
  void input_gradient(runtime::GradientBuilder& builder) const override {
    static const ActivityGradient rule;
    if (builder.wants(0)) builder.add_gradient(0, builder.append(rule, {builder.input(0), builder.loss_scale()}, {}, "dx")[0]);
  }
  runtime::Cost cost(std::span<const runtime::ValueType>, std::span<const runtime::ValueType>, const runtime::Attributes&) const override {
    return {};
  }
  runtime::KernelRows kernel_rows() const override { return {}; }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    double sum = 0;
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i) sum += static_cast<double>(inputs[0].as<float>()[i]) * inputs[0].as<float>()[i];
    *outputs[0].as<double>() = sum;
  }
};

class ActivityFamily final : public ModelFamily {
 public:
  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override { return llama().resolve(as_llama(config)); }
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override {
    return llama().embed(builder, model);
  }
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
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits,
                                      double z_loss) const override {
    return llama().head(builder, model, x, want_logits, z_loss);
  }
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override {
    return llama().initial(model, name, shape);
  }
  [[nodiscard]] bool recognises(runtime::JsonReader&) const override { return false; }
  void read_config(runtime::JsonReader&, ConfigFile&) const override {}
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile&, std::string_view) const override { return {}; }

  /// Makes "activity" a model.family of this process.
  static void add() {
    static const ActivityFamily family;
    static const bool added = (add_model_family(family), true);
    static_cast<void>(added);
  }

 private:
  static ModelConfig as_llama(ModelConfig config) {
    config.family = "llama";
    return config;
  }
  static const ModelFamily& llama() {
    static const ModelFamily& family = family_of(ModelConfig{.family = "llama"});
    return family;
  }
  FamilyTraits traits_{.name = "activity"};
};

}  // namespace millrace::layers::testing
