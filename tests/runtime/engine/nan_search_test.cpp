#include "runtime/engine/nan_search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/packing.hpp"
#include "runtime/passes/plain_operand.hpp"

namespace millrace::runtime {
namespace {

using kernels::DType;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// An operation with operands and results in memory, to be filled by hand.
class Shown {
 public:
  Shown() {
    operation_.name = "layers.2.mlp.down_proj";
    operation_.layer = 2;
  }

  kernels::Tensor add_input(const std::string& name, ValueType type) { return add(name, type, operation_.inputs, inputs_); }
  kernels::Tensor add_output(const std::string& name, ValueType type) { return add(name, type, operation_.outputs, outputs_); }
  /// The values of the input that was added last are stored in `packed`, in packed form.
  void pack_input(const std::byte* packed, WeightForm form) {
    programs_.values.back().form = form;
    inputs_.back().data = const_cast<std::byte*>(packed);
  }
  void set_layer(int layer) { operation_.layer = layer; }

  [[nodiscard]] std::optional<NanFinding> search() const {
    return find_not_finite({programs_, ProgramKind::forward, 0, operation_, inputs_, outputs_});
  }

 private:
  kernels::Tensor add(const std::string& name, ValueType type, std::vector<ValueId>& ids, std::vector<kernels::Tensor>& tensors) {
    ids.push_back({static_cast<std::int32_t>(programs_.values.size())});
    programs_.values.push_back({.type = type, .name = name});
    memory_.emplace_back(bytes_of(type));
    tensors.push_back({memory_.back().data(), type.dtype, type.shape});
    return tensors.back();
  }

  ProgramSet programs_;
  Operation operation_;
  std::vector<kernels::Buffer> memory_;
  std::vector<kernels::Tensor> inputs_, outputs_;
};

void put(const kernels::Tensor& tensor, std::size_t element, double value) {
  if (tensor.dtype == DType::f32) tensor.as<float>()[element] = static_cast<float>(value);
  if (tensor.dtype == DType::bf16) tensor.as<kernels::BFloat16>()[element] = kernels::to_bfloat16(static_cast<float>(value));
  if (tensor.dtype == DType::f64) tensor.as<double>()[element] = value;
}

TEST(NanSearch, FindsNothingWhereEveryResultIsFinite) {
  Shown shown;
  put(shown.add_input("x", {DType::f32, {3}}), 1, nan);  // an operand alone is no finding: the result does not depend on it
  for (const auto dtype : {DType::f32, DType::bf16, DType::f64})
    put(shown.add_output("y", {dtype, {2, 3}}), 4, dtype == DType::f64 ? 1e308 : 3e38);
  EXPECT_FALSE(shown.search().has_value());
}

TEST(NanSearch, CountsAndNamesTheFirstInEveryFloatingDtype) {
  for (const auto dtype : {DType::f32, DType::bf16, DType::f64})
    for (const double value : {infinity, -infinity, nan}) {
      Shown shown;
      put(shown.add_input("x", {dtype, {6}}), 5, 1);
      const auto y = shown.add_output("y", {dtype, {2, 3}});
      put(y, 2, value);
      put(y, 4, nan);
      put(y, 5, -infinity);
      const auto finding = shown.search();
      ASSERT_TRUE(finding.has_value()) << to_string(dtype);
      ASSERT_EQ(finding->results.size(), 1U);
      const auto& result = finding->results[0];
      EXPECT_EQ(result.name, "y");
      EXPECT_EQ(result.count, 3);
      EXPECT_EQ(result.element, 2);
      EXPECT_TRUE(std::isnan(value) ? std::isnan(result.value) : result.value == value) << result.value;
      EXPECT_TRUE(finding->operands.empty());
      EXPECT_EQ(finding->operation, "layers.2.mlp.down_proj");
      EXPECT_EQ(finding->layer, 2);
    }
}

TEST(NanSearch, LooksAtTheFirstAndTheLastElement) {
  for (const std::size_t element : {0U, 5U}) {
    Shown shown;
    put(shown.add_output("y", {DType::f32, {6}}), element, infinity);
    const auto finding = shown.search();
    ASSERT_TRUE(finding.has_value());
    EXPECT_EQ(finding->results[0].element, static_cast<std::int64_t>(element));
    EXPECT_EQ(finding->results[0].count, 1);
  }
}

TEST(NanSearch, PassesOverIntegers) {
  Shown shown;
  const auto tokens = shown.add_input("tokens", {DType::i32, {2}});
  const float pattern = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tokens.data, &pattern, sizeof pattern);
  const auto ids = shown.add_output("ids", {DType::i32, {2}});
  std::memcpy(ids.data, &pattern, sizeof pattern);
  EXPECT_FALSE(shown.search().has_value());
  put(shown.add_output("y", {DType::f32, {2}}), 0, nan);
  const auto finding = shown.search();
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->results.size(), 1U);
  EXPECT_TRUE(finding->operands.empty());
}

TEST(NanSearch, TellsResultsAndOperandsApart) {
  Shown shown;
  put(shown.add_input("sound", {DType::f32, {4}}), 0, 1);
  put(shown.add_input("first", {DType::f32, {4}}), 3, infinity);
  put(shown.add_input("second", {DType::bf16, {4}}), 1, nan);
  put(shown.add_output("kept", {DType::f32, {4}}), 0, 1);
  put(shown.add_output("y", {DType::f32, {4}}), 2, -infinity);
  put(shown.add_output("z", {DType::f32, {4}}), 1, nan);
  const auto finding = shown.search();
  ASSERT_TRUE(finding.has_value());
  ASSERT_EQ(finding->results.size(), 2U);
  EXPECT_EQ(finding->results[0].name, "y");
  EXPECT_EQ(finding->results[1].name, "z");
  ASSERT_EQ(finding->operands.size(), 2U);
  EXPECT_EQ(finding->operands[0].name, "first");
  EXPECT_EQ(finding->operands[1].name, "second");
  EXPECT_EQ(finding->text(),
            "operation layers.2.mlp.down_proj (layer 2) left values that are not finite: 1 in y, the first -inf at element 2; its operands "
            "have 1 in first, the first inf at element 3, and 1 in second, the first nan at element 1");
}

TEST(NanSearch, NamesALayerWhereThereIsOne) {
  Shown shown;
  put(shown.add_output("y", {DType::f32, {1}}), 0, infinity);
  shown.set_layer(0);
  EXPECT_EQ(shown.search()->text(),
            "operation layers.2.mlp.down_proj (layer 0) left values that are not finite: 1 in y, the first inf at element 0; its operands "
            "are finite");
  shown.set_layer(-1);
  EXPECT_EQ(
      shown.search()->text(),
      "operation layers.2.mlp.down_proj left values that are not finite: 1 in y, the first inf at element 0; its operands are finite");
}

/// A matrix [3, 5] with an own value in every place, packed in either form.
class PackedMatrix {
 public:
  PackedMatrix(DType dtype, WeightForm form) : plain_(15 * 4), value_{{dtype, {3, 5}}, Role::parameter, "w"}, team_(1), context_(team_) {
    value_.form = form;
    tensor_ = {plain_.data(), dtype, {3, 5}};
    for (std::size_t i = 0; i < 15; ++i) put(tensor_, i, static_cast<double>(i) + 1);
  }
  [[nodiscard]] bool turned() const { return value_.form == WeightForm::packed_turned; }
  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] const kernels::Tensor& tensor() const { return tensor_; }
  kernels::Buffer packed() const {
    kernels::Buffer memory(kernels::packed_bytes(turned() ? 5 : 3, turned() ? 3 : 5, tensor_.dtype));
    kernels::pack(context_, tensor_, turned(), memory.data());
    return memory;
  }

 private:
  kernels::Buffer plain_;
  Value value_;
  kernels::Tensor tensor_;
  kernels::ThreadTeam team_;
  kernels::ExecutionContext context_;
};

TEST(PlainOperand, UnpacksAndLeavesThePackedOneAlone) {
  for (const auto form : {WeightForm::packed, WeightForm::packed_turned}) {
    const PackedMatrix matrix(DType::f32, form);
    const kernels::Buffer packed = matrix.packed();
    const std::vector<std::byte> before(packed.bytes().begin(), packed.bytes().end());
    const PlainOperand operand(matrix.value(), {packed.data(), DType::f32, {3, 5}});
    EXPECT_EQ(operand.tensor().shape, (kernels::Shape{3, 5}));
    EXPECT_NE(operand.tensor().data, packed.data());
    EXPECT_EQ(std::memcmp(operand.tensor().data, matrix.tensor().data, operand.tensor().bytes()), 0);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), packed.bytes().begin()));
  }
}

TEST(PlainOperand, UnpacksAStackMatrixByMatrix) {
  kernels::ThreadTeam team(1);
  const kernels::Buffer memory(30 * sizeof(float));
  const kernels::Tensor stack{memory.data(), DType::f32, {2, 3, 5}};
  for (std::size_t i = 0; i < 30; ++i) put(stack, i, static_cast<double>(i) + 1);
  for (const auto form : {WeightForm::packed, WeightForm::packed_turned}) {
    const bool turned = form == WeightForm::packed_turned;
    const kernels::Buffer packed(kernels::packed_bytes(stack.shape, turned, DType::f32));
    kernels::pack(kernels::ExecutionContext(team), stack, turned, packed.data());
    Value value{{DType::f32, stack.shape}, Role::parameter, "w"};
    value.form = form;
    const PlainOperand operand(value, {packed.data(), DType::f32, stack.shape});
    EXPECT_EQ(std::memcmp(operand.tensor().data, stack.data, stack.bytes()), 0);
  }
}

TEST(PlainOperand, IsTheOperandItselfWhereThatIsPlain) {
  const PackedMatrix matrix(DType::f32, WeightForm::plain);
  EXPECT_EQ(PlainOperand(matrix.value(), matrix.tensor()).tensor().data, matrix.tensor().data);
}

TEST(NanSearch, CountsElementsOfAPackedWeightAsOfAPlainOne) {
  for (const auto form : {WeightForm::packed, WeightForm::packed_turned}) {
    const PackedMatrix matrix(DType::f32, form);
    put(matrix.tensor(), 7, infinity);
    const kernels::Buffer packed = matrix.packed();
    Shown shown;
    (void)shown.add_input("w", {DType::f32, {3, 5}});
    shown.pack_input(packed.data(), form);
    put(shown.add_output("y", {DType::f32, {1}}), 0, nan);
    const auto finding = shown.search();
    ASSERT_TRUE(finding.has_value());
    ASSERT_EQ(finding->operands.size(), 1U);
    EXPECT_EQ(finding->operands[0].element, 7);
    EXPECT_EQ(finding->operands[0].count, 1);
  }
}

}  // namespace
}  // namespace millrace::runtime
