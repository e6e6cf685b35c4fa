#include "kernels/choose_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::ChooseBlocksOptions;

/// Whether x is [T, n·head_dim] with n a multiple of `of`.
bool has_heads(const ValueType& x, std::int64_t head_dim, std::int64_t of) {
  return head_dim > 0 && of > 0 && rules::is_matrix(x) && x.shape[1] > 0 && x.shape[1] % (head_dim * of) == 0;
}

/// q, k → the choice. The products by which queries choose count, and the sums of the means.
class ChooseBlocks final : public OperationRule {
 public:
  std::string_view name() const override { return "choose_blocks"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<ChooseBlocksOptions>();
    const bool fits = inputs.size() == 2 && has_heads(inputs[1], options.head_dim, 1) &&
                      has_heads(inputs[0], options.head_dim, inputs[1].shape[1] / options.head_dim) && inputs[0].dtype == inputs[1].dtype &&
                      inputs[0].shape.dimension(0) == inputs[1].shape.dimension(0) && options.sequence > 0 && options.block > 0 &&
                      inputs[0].shape[0] % options.sequence == 0;
    rules::require(
        fits, name(), inputs,
        fmt::format("q [T, H * {0}], k [T, K * {0}] with K dividing H, T a multiple of {1}", options.head_dim, options.sequence));
    const std::int64_t words = inputs[0].shape[1] / options.head_dim * kernels::choice_words(options.sequence, options.block);
    return {{kernels::DType::i32, {inputs[0].shape.dimension(0), words}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<ChooseBlocksOptions>();
    double products = 0;  // of a row's queries of one head with means
    for (std::int64_t first = 0, own = 0; first < options.sequence; first += options.block, ++own)
      if (own >= options.blocks)
        products += static_cast<double>(std::min(options.block, options.sequence - first)) * static_cast<double>(own);
    return {2 * rules::elements(inputs[0]) * products / static_cast<double>(options.sequence) + rules::elements(inputs[1]),
            rules::traffic(inputs, outputs)};
  }

  std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType>, const Attributes& attributes,
                            const kernels::Processor& processor) const override {
    const auto& options = attributes.as<ChooseBlocksOptions>();
    return kernels::choose_blocks_scratch_bytes(rules::heads(inputs[1].shape, options.head_dim), options, processor);
  }

  KernelRows kernel_rows() const override { return {&kernels::table::choose_blocks}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch scratch) const override {
    const auto& options = attributes.as<ChooseBlocksOptions>();
    kernels::choose_blocks(context, rules::heads(inputs[0], options.head_dim), rules::heads(inputs[1], options.head_dim), options,
                           rules::heads(outputs[0], kernels::choice_words(options.sequence, options.block)), scratch);
  }
};

}  // namespace

ValueId choose_blocks(ProgramBuilder& builder, ValueId q, ValueId k, const ChooseBlocksOptions& options, std::string_view name) {
  static const ChooseBlocks rule;
  auto here = options;
  here.sequence = builder.options().sequence;
  return builder.append(rule, {q, k}, here, name)[0];
}

}  // namespace millrace::runtime
