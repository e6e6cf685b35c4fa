#include "kernels/linear_cross_entropy.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// h [T, D], w [V, D] of one dtype, targets i32 [T].
bool are_operands(std::span<const ValueType> inputs) {
  return inputs.size() >= 3 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[0].dtype == inputs[1].dtype &&
         inputs[0].shape.dimension(1) == inputs[1].shape.dimension(1) && inputs[2].dtype == kernels::DType::i32 &&
         inputs[2].shape.rank() == 1 && inputs[2].shape.dimension(0) == inputs[0].shape.dimension(0);
}

std::size_t scratch_of(std::span<const ValueType> inputs, const Attributes& attributes, const kernels::Processor& processor) {
  return kernels::linear_cross_entropy_scratch_bytes(inputs[0].shape, inputs[1].shape, inputs[0].dtype,
                                                     attributes.as<kernels::CrossEntropyOptions>(), processor);
}

/// 2·T·V·D: logits, or either product with dl.
double product_flops(std::span<const ValueType> inputs) { return 2 * rules::elements(inputs[0]) * static_cast<double>(inputs[1].shape[0]); }

/// Loss and log_sum_exp.
std::vector<ValueType> results_of(std::span<const ValueType> inputs) {
  return {{kernels::DType::f64, {2}}, {kernels::DType::f32, {inputs[0].shape.dimension(0)}}};
}

/// h, w, targets, log_sum_exp, loss scale; adds into dw. The logits' tiles are computed again.
class LossWeightGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "linear_cross_entropy_weight_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 5 && are_operands(inputs), name(), inputs,
                   "h [T, D], weight [V, D], targets [T], log_sum_exp [T], scale [1]");
    return {{kernels::DType::f32, inputs[1].shape}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * product_flops(inputs), rules::traffic(inputs, outputs, true)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_cross_entropy_weight_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_cross_entropy_weight_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4],
                                                  attributes.as<kernels::CrossEntropyOptions>(), outputs[0], scratch);
  }
};

const OperationRule& weight_gradient_rule() {
  static const LossWeightGradient rule;
  return rule;
}

/// h, w, targets, loss scale → dh, and loss and log_sum_exp as the forward yields them.
class GradientWithLoss : public OperationRule {
 public:
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 4 && are_operands(inputs), name(), inputs, "h [T, D], weight [V, D], targets [T], scale [1]");
    auto results = results_of(inputs);
    results.insert(results.begin(), inputs[0]);
    return results;
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }
};

/// Used in B only: also computes dw, from the same logits if the kernel supports that.
class BothGradients final : public GradientWithLoss {
 public:
  std::string_view name() const override { return "linear_cross_entropy_gradients"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    auto results = GradientWithLoss::infer(inputs, attributes);
    results.push_back({kernels::DType::f32, inputs[1].shape});
    return results;
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const int products = kernels::linear_cross_entropy_gradients_products(inputs[0].shape, inputs[1].shape, inputs[0].dtype,
                                                                          attributes.as<kernels::CrossEntropyOptions>());
    return {products * product_flops(inputs), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_cross_entropy_gradients}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_cross_entropy_gradients(context, inputs[0], inputs[1], inputs[2], inputs[3],
                                            attributes.as<kernels::CrossEntropyOptions>(), outputs[0], outputs[1], outputs[2], outputs[3],
                                            scratch);
  }
};

class InputGradient final : public GradientWithLoss {
 public:
  std::string_view name() const override { return "linear_cross_entropy_input_gradient"; }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {2 * product_flops(inputs), rules::traffic(inputs, outputs)};
  }

  Epilogues epilogues() const override {
    static const BothGradients both;
    return {.weight_gradient = &weight_gradient_rule(), .both = &both};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_cross_entropy_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_cross_entropy_input_gradient(context, inputs[0], inputs[1], inputs[2], inputs[3],
                                                 attributes.as<kernels::CrossEntropyOptions>(), outputs[0], outputs[1], outputs[2],
                                                 scratch);
  }
};

class LinearCrossEntropy final : public OperationRule {
 public:
  std::string_view name() const override { return "linear_cross_entropy"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "log_sum_exp"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 3 && are_operands(inputs), name(), inputs, "h [T, D] and weight [V, D] of one dtype, targets i32 [T]");
    return results_of(inputs);
  }

  /// I computes the loss along with the gradient, from the same logits, so F does not compute it.
  void input_gradient(GradientBuilder& builder) const override {
    static const InputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append_for_forward(rule, {builder.input(0), builder.input(1), builder.input(2), builder.loss_scale()},
                                                       builder.forward().attributes, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    builder.append_accumulate(weight_gradient_rule(),
                              {builder.input(0), builder.input(1), builder.input(2), builder.output(1), builder.loss_scale()},
                              {builder.accumulator(1)}, builder.forward().attributes, "dw");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {product_flops(inputs), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_cross_entropy_forward}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_cross_entropy_forward(context, inputs[0], inputs[1], inputs[2], attributes.as<kernels::CrossEntropyOptions>(),
                                          outputs[0], outputs[1], scratch);
  }
};

/// Computes the logits themselves, for sampling and parity.
class Logits final : public OperationRule {
 public:
  std::string_view name() const override { return "logits"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 2 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) && inputs[0].dtype == inputs[1].dtype &&
                       inputs[0].shape.dimension(1) == inputs[1].shape.dimension(1),
                   name(), inputs, "x [T, D] and weight [V, D] of one dtype");
    return {{kernels::DType::f32, {inputs[0].shape.dimension(0), inputs[1].shape.dimension(0)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {product_flops(inputs), rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return scratch_of(inputs, attributes, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::linear_logits}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    kernels::linear_logits(context, inputs[0], inputs[1], attributes.as<kernels::CrossEntropyOptions>(), outputs[0], scratch);
  }
};

}  // namespace

ValueId linear_cross_entropy(ProgramBuilder& builder, ValueId h, ValueId weight, ValueId targets,
                             const kernels::CrossEntropyOptions& options, std::string_view name) {
  static const LinearCrossEntropy rule;
  return builder.append(rule, {h, weight, targets}, options, name)[0];
}

ValueId logits(ProgramBuilder& builder, ValueId x, ValueId weight, const kernels::CrossEntropyOptions& options, std::string_view name) {
  static const Logits rule;
  return builder.append(rule, {x, weight}, options, name)[0];
}

}  // namespace millrace::runtime
