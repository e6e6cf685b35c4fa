#include "kernels/score_maxima.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// q [T, H·D], k [T, K·D], segments [T] → f64 [H]. It has no gradient: what it finds changes weights after a step, not within it.
class ScoreMaxima final : public OperationRule {
 public:
  std::string_view name() const override { return "score_maxima"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t width = width_of(attributes);
    rules::require(inputs.size() == 3 && width > 0 && rules::is_matrix(inputs[0]) && rules::is_matrix(inputs[1]) &&
                       inputs[0].dtype == inputs[1].dtype && inputs[0].shape[1] % width == 0 && inputs[1].shape[1] % width == 0,
                   name(), inputs, "q [T, H * head_dim], k [T, K * head_dim], segments");
    return {{kernels::DType::f64, {inputs[0].shape[1] / width}}};
  }

  /// One product over the pairs of query and key that the mask leaves.
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto options = attributes.as<kernels::AttentionOptions>();
    return {2 * rules::elements(inputs[0]) * (kernels::attention_pairs(options) / static_cast<double>(options.sequence)),
            rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    return kernels::score_maxima_scratch_bytes(rules::heads(inputs[0].shape, width_of(attributes)),
                                               attributes.as<kernels::AttentionOptions>(), processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::score_maxima}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const std::int64_t width = width_of(attributes);
    kernels::score_maxima(context, rules::heads(inputs[0], width), rules::heads(inputs[1], width), inputs[2],
                          attributes.as<kernels::AttentionOptions>(), outputs[0], scratch);
  }

 private:
  static std::int64_t width_of(const Attributes& attributes) { return attributes.as<kernels::AttentionOptions>().head_dim; }
};

}  // namespace

ValueId score_maxima(ProgramBuilder& builder, ValueId q, ValueId k, ValueId segments, kernels::AttentionOptions options,
                     std::string_view name) {
  static const ScoreMaxima rule;
  options.sequence = builder.options().sequence;
  return builder.append(rule, {q, k, segments}, options, name)[0];
}

}  // namespace millrace::runtime
