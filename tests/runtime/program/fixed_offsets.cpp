#include "tests/runtime/program/fixed_offsets.hpp"

#include <algorithm>
#include <array>

#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime::testing {
namespace {

constexpr std::array<std::int32_t, 4> offsets{0, 3, 3, 8};

class FixedOffsets final : public OperationRule {
 public:
  std::string_view name() const override { return "fixed_offsets"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    rules::require(inputs.size() == 1 && inputs[0] == ValueType{kernels::DType::i32, {offsets.back()}}, name(), inputs, "tokens i32 [8]");
    return {{kernels::DType::i32, {static_cast<std::int64_t>(offsets.size())}}};
  }
  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes&) const override {
    return {0, rules::traffic(inputs, outputs)};
  }
  KernelRows kernel_rows() const override { return {}; }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor>, std::span<const kernels::Tensor> outputs, const Attributes&,
           kernels::Scratch) const override {
    std::ranges::copy(offsets, outputs[0].as<std::int32_t>());
  }
};

}  // namespace

ValueId fixed_offsets(ProgramBuilder& builder, ValueId tokens, std::string_view name) {
  static const FixedOffsets rule;
  return builder.append(rule, {tokens}, {}, name)[0];
}

ValueId products_of_experts(ProgramBuilder& builder, ValueId x, bool input_major) {
  const auto offsets = fixed_offsets(builder, builder.batch("tokens"), "offsets");
  const auto product = input_major ? grouped_linear_input_major : grouped_linear;
  const auto wide = builder.parameter("wide", input_major ? kernels::Shape{3, 8, 5} : kernels::Shape{3, 5, 8});
  const auto y = product(builder, x, wide, offsets, "wide", builder.parameter("wide.bias", {3, 5}, in_f32));
  const auto back = builder.parameter("back", input_major ? kernels::Shape{3, 5, 8} : kernels::Shape{3, 8, 5});
  return product(builder, y, back, offsets, "back", ValueId{});
}

ValueId received_rows(ProgramBuilder& builder, ValueId x, const std::string& name) {
  const auto offsets = fixed_offsets(builder, builder.batch("tokens"), name + ".offsets");
  return exchange_rows(builder, x, {offsets, offsets}, builder.bounded_by(offsets, 8, 8), name + ".received");
}

}  // namespace millrace::runtime::testing
