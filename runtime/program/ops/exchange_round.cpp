#include "kernels/exchange_round.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

class ExchangeRoundRule final : public OperationRule {
 public:
  std::string_view name() const override { return "exchange_round"; }
  bool is_of_exchange() const override { return true; }
  RowGroups row_groups() const override { return RowGroups::none; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const std::int64_t members = attributes.as<kernels::ExchangeRoundOptions>().group;
    const bool fits = inputs.size() == 1 && inputs[0].dtype == kernels::DType::i32 && inputs[0].shape.rank() == 1 &&
                      !inputs[0].shape.bounded() && members >= 1 && inputs[0].shape[0] % (members * members) == 0;
    rules::require(fits, name(), inputs, "counts i32 [P * E]");
    const ValueType ranges{kernels::DType::i32, {members, 2}};
    return {ranges, ranges, {kernels::DType::i32, {inputs[0].shape[0] / members + 1}}, {kernels::DType::i32, {1}}};
  }

  std::string_view output_suffix(std::size_t i) const override {
    constexpr std::array<std::string_view, 4> suffixes = {"send", "receive", "groups", "more"};
    return suffixes.at(i);
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::exchange_round}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::exchange_round(context, inputs[0], outputs[0], outputs[1], outputs[2], outputs[3],
                            attributes.as<kernels::ExchangeRoundOptions>());
  }
};

}  // namespace

ExchangeRound exchange_round(ProgramBuilder& builder, ValueId counts, const kernels::ExchangeRoundOptions& options, std::string_view name) {
  static const ExchangeRoundRule rule;
  const auto tables = builder.append(rule, {counts}, options, name);
  return {.send = tables[0], .receive = tables[1], .groups = tables[2], .more = tables[3]};
}

}  // namespace millrace::runtime
