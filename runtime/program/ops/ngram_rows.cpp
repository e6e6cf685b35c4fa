#include "kernels/ngram_rows.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::NgramOptions;

/// tokens i32 [T] → i32 [T, tables]. A runtime count of whole rows may bound T.
class NgramRows final : public OperationRule {
 public:
  std::string_view name() const override { return "ngram_rows"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(inputs.size() == 1 && inputs[0].shape.rank() == 1 && rules::is_indices(inputs[0], inputs[0].shape.dimension(0)), name(),
                   inputs, "tokens i32 [T]");
    const auto tables = static_cast<std::int64_t>(attributes.as<NgramOptions>().rows.size());
    return {{kernels::DType::i32, {inputs[0].shape.dimension(0), tables}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::ngram_rows}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::ngram_rows(context, inputs[0], attributes.as<NgramOptions>(), outputs[0]);
  }
};

}  // namespace

ValueId ngram_rows(ProgramBuilder& builder, ValueId tokens, const kernels::NgramOptions& options, std::string_view name) {
  static const NgramRows rule;
  NgramOptions of_rows = options;
  of_rows.sequence = builder.options().sequence;
  return builder.append(rule, {tokens}, of_rows, name)[0];
}

}  // namespace millrace::runtime
