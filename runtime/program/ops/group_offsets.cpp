#include "kernels/group_offsets.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

bool are_fixed_integers(std::span<const ValueType> inputs) {
  return inputs.size() == 1 && inputs[0].dtype == kernels::DType::i32 && inputs[0].shape.rank() >= 1 && !inputs[0].shape.bounded();
}

struct GroupCountsOptions {
  std::int64_t copies = 1;

  static constexpr auto members() { return std::tuple(kernels::member("copies", &GroupCountsOptions::copies)); }
};

class GroupCounts final : public OperationRule {
 public:
  std::string_view name() const override { return "group_counts"; }
  bool is_of_exchange() const override { return true; }
  RowGroups row_groups() const override { return RowGroups::none; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    rules::require(are_fixed_integers(inputs) && inputs[0].shape.rank() == 1 && inputs[0].shape[0] >= 2, name(), inputs,
                   "offsets i32 [G + 1]");
    return {{kernels::DType::i32, {attributes.as<GroupCountsOptions>().copies * (inputs[0].shape[0] - 1)}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::group_counts}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::group_counts(context, inputs[0], outputs[0]);
  }
};

class GroupOffsets final : public OperationRule {
 public:
  std::string_view name() const override { return "group_offsets"; }
  bool is_of_exchange() const override { return true; }
  RowGroups row_groups() const override { return RowGroups::none; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(are_fixed_integers(inputs), name(), inputs, "counts i32, one for each of G groups");
    return {{kernels::DType::i32, {inputs[0].shape.elements() + 1}}};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::group_offsets}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    kernels::group_offsets(context, inputs[0], outputs[0]);
  }
};

}  // namespace

ValueId group_counts(ProgramBuilder& builder, ValueId offsets, std::string_view name, std::int64_t copies) {
  static const GroupCounts rule;
  return builder.append(rule, {offsets}, GroupCountsOptions{copies}, name)[0];
}

ValueId group_offsets(ProgramBuilder& builder, ValueId counts, std::string_view name) {
  static const GroupOffsets rule;
  return builder.append(rule, {counts}, {}, name)[0];
}

}  // namespace millrace::runtime
