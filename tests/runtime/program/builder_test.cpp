#include "runtime/program/builder.hpp"

#include <gtest/gtest.h>

#include "kernels/base/check.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::runtime {
namespace {

using kernels::DType;

ProgramBuilder small_builder() { return ProgramBuilder({DType::f32, 2, 4}); }

template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    return error.what();
  }
  return "no error";
}

void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
}

TEST(Builder, WrongShapesNameTheOperationAndBothOperands) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  builder.enter(3, "layers.3");
  expect_words(message_of([&] {
                 (void)linear(builder, x, builder.parameter("w", {5, 17}), "mlp.up");
               }),
               {"layers.3.mlp.up", "linear", "[8, 16]", "[5, 17]"});
  expect_words(message_of([&] { (void)rms_norm(builder, x, builder.parameter("n", {15}, in_f32), {1e-5F}, "norm"); }),
               {"layers.3.norm", "rms_norm", "[8, 16]", "[15]"});
  expect_words(message_of([&] {
                 (void)add(builder, x, linear(builder, x, builder.parameter("v", {4, 16}), "v"), "sum");
               }),
               {"layers.3.sum", "[8, 16]", "[8, 4]"});
  expect_words(message_of([&] { (void)attention(builder, x, x, x, builder.batch("segments"), {.head_dim = 3}, "attention"); }),
               {"layers.3.attention", "[8, 16]", "H * 3"});
  expect_words(
      message_of([&] { (void)attention(builder, x, x, x, builder.batch("segments"), {.head_dim = 4, .v_head_dim = 3}, "attention"); }),
      {"layers.3.attention", "[8, 16]", "K * 4", "K * 3"});
  expect_words(message_of([&] {
                 (void)split_heads(builder, x, 2, {5, 4}, "split");
               }),
               {"layers.3.split", "split_heads", "[8, 16]", "2 * 9"});
  expect_words(message_of([&] { (void)split_heads(builder, x, 2, {}, "split"); }), {"2 heads", "1 to 4"});
  expect_words(message_of([&] {
                 (void)join_heads(builder, {x, x}, {.heads = 3, .shared = 1}, "join");
               }),
               {"layers.3.join", "join_heads", "[8, 16]", "3 * width"});
  expect_words(message_of([&] { (void)join_heads(builder, {x}, {.heads = 2, .shared = 2}, "join"); }), {"layers.3.join", "[8, 16]"});
  expect_words(message_of([&] { (void)attention_temperature(builder, x, x, {}, "temperature"); }),
               {"layers.3.temperature", "[8, 16]", "positions"});
  expect_words(message_of([&] { (void)rms_norm_without_weight(builder, x, 5, {}, "norm"); }), {"layers.3.norm", "[8, 16]", "[5]"});
  expect_words(message_of([&] {
                 (void)rope(builder, x, builder.batch("positions"), builder.constant("f", {1, 2, 3}), {}, "rope");
               }),
               {"layers.3.rope", "[8, 16]", "[3]"});
  expect_words(message_of([&] {
                 (void)linear_cross_entropy(builder, x, builder.parameter("h", {9, 8}), builder.batch("targets"), {}, "loss");
               }),
               {"layers.3.loss", "[8, 16]", "[9, 8]"});
  expect_words(message_of([&] { (void)embedding(builder, x, x, "embedding"); }), {"layers.3.embedding", "f32 [8, 16]", "tokens"});
}

TEST(Builder, InputsAreTheSameValueEachTime) {
  auto builder = small_builder();
  EXPECT_EQ(builder.batch("tokens"), builder.batch("tokens"));
  EXPECT_FALSE(builder.batch("tokens") == builder.batch("targets"));
  EXPECT_EQ(builder.parameter("w", {2, 3}), builder.parameter("w", {2, 3}));
  EXPECT_FALSE(builder.parameter("w", {2, 3}, {.use = 1}) == builder.parameter("w", {2, 3}));
  expect_words(message_of([&] { (void)builder.parameter("w", {2, 4}); }), {"'w'", "[2, 4]", "[2, 3]"});
  expect_words(message_of([&] { (void)builder.batch("token"); }), {"'token'"});
}

/// The layer determines the dtype, whatever the number of axes.
TEST(Builder, AParameterHasTheDtypeThatItsLayerSays) {
  ProgramBuilder builder({DType::bf16, 2, 4});
  const auto x = builder.boundary_in(16);
  EXPECT_EQ(builder.type(x).dtype, DType::bf16);
  EXPECT_EQ(builder.type(builder.parameter("w", {3, 16})).dtype, DType::bf16);
  EXPECT_EQ(builder.type(builder.parameter("n", {16}, in_f32)).dtype, DType::f32);
  EXPECT_EQ(builder.type(builder.parameter("router", {3, 16}, in_f32)).dtype, DType::f32);
  EXPECT_EQ(builder.type(builder.parameter("v", {16})).dtype, DType::bf16);
  EXPECT_EQ(builder.type(linear(builder, x, builder.parameter("w", {3, 16}), "y")), (ValueType{DType::bf16, {8, 3}}));
  EXPECT_EQ(builder.type(logits(builder, x, builder.parameter("w", {3, 16}), {}, "z")), (ValueType{DType::f32, {8, 3}}));
}

TEST(Builder, StoredPartsMakeUpTheWholeTensor) {
  auto builder = small_builder();
  EXPECT_TRUE(builder.parameter("e", {6, 4}, {.stored = {.shape = {3, 4}, .parts = {"e.0", "e.1"}}}).valid());
  expect_words(message_of([&] {
                 (void)builder.parameter("f", {6, 4}, {.stored = {.shape = {3, 4}, .parts = {"f.0", "f.1", "f.2"}}});
               }),
               {"'f'", "3 tensors [3, 4]", "as many elements"});
  expect_words(message_of([&] {
                 (void)builder.parameter("g", {3, 4}, {.stored = {.shape = {6}, .parts = {"g.0", "g.1"}}});
               }),
               {"'g'", "2 parts of its first axis"});
  expect_words(message_of([&] { (void)builder.parameter("h", {12}, {.stored = {.shape = {12}, .transposed = true}}); }),
               {"'h'", "transposed", "two axes or more"});
}

TEST(Builder, ALabelIsAlsoOnWhatTheOperationKeepsBesideIt) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  builder.label(attention(builder, x, x, x, builder.batch("segments"), {.head_dim = 4}, "attention"), "context");
  builder.set_boundary_out(x);
  const auto program = builder.finish();
  ASSERT_EQ(program.operations.size(), 1U);
  ASSERT_EQ(program.operations[0].outputs.size(), 2U);
  for (const auto output : program.operations[0].outputs) EXPECT_EQ(program.value(output).labels, std::vector<std::string>{"context"});
  EXPECT_EQ(program.value(program.operations[0].outputs[1]).name, "attention.log_sum_exp");
}

TEST(Builder, TwoOperationsOfOneNameAreAMistake) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  (void)copy(builder, x, "same");
  expect_words(message_of([&] { (void)copy(builder, x, "same"); }), {"'same'"});
}

TEST(Builder, AProgramHasOneEnd) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  expect_words(message_of([&] { (void)builder.finish(); }), {"no end"});
  builder.set_boundary_out(x);
  EXPECT_EQ(builder.finish().outputs.at(0).value, x);
  expect_words(message_of([&] { builder.set_boundary_out(x); }), {"boundary_out"});
}

TEST(Builder, IsOutsideOfLayersUntilItEntersOneAndAfterTheEnd) {
  auto builder = small_builder();
  for (int program = 0; program < 2; ++program) {
    const auto x = builder.boundary_in(16);
    const auto outside = copy(builder, x, "outside");
    builder.enter(2, "layers.2");
    const auto inside = copy(builder, outside, "inside");
    const auto weight = builder.parameter("weight", {16});
    builder.set_boundary_out(inside);
    const auto made = builder.finish();
    ASSERT_EQ(made.operations.size(), 2U);
    EXPECT_EQ(made.operations[0].name, "outside");
    EXPECT_EQ(made.operations[0].layer, -1);
    EXPECT_EQ(made.value(outside).layer, -1);
    EXPECT_EQ(made.value(x).layer, -1);
    EXPECT_EQ(made.operations[1].name, "layers.2.inside");
    EXPECT_EQ(made.operations[1].layer, 2);
    EXPECT_EQ(made.value(inside).layer, 2);
    EXPECT_EQ(made.value(weight).layer, 2);
    EXPECT_TRUE(builder.scope().empty());
  }
}

TEST(Builder, AnOperationNamesItsOperandsAndWhatItExpects) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  const auto vector = builder.parameter("n", {15});
  expect_words(message_of([&] { (void)add(builder, x, vector, "sum"); }), {"(f32 [8, 16], f32 [15]), expected "});
}

TEST(Builder, TheEndsAreOfTheTypesThatTheyHaveEverywhere) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  const auto narrow = builder.parameter("w", {4, 16}), vector = builder.parameter("n", {16});
  expect_words(message_of([&] { builder.set_boundary_out(narrow); }), {"boundary_out is f32 [4, 16]", "[8, width]"});
  expect_words(message_of([&] { builder.set_boundary_out(vector); }), {"boundary_out is f32 [16]"});
  expect_words(message_of([&] { builder.loss_term({.name = "lm_loss"}, x); }), {"the loss term 'lm_loss' is f32 [8, 16], expected f64"});
  expect_words(message_of([&] { builder.set_logits(vector); }), {"logits are f32 [16], expected f32 [T, V]"});
  expect_words(message_of([&] { builder.set_logits(builder.batch("tokens")); }), {"logits are i32 [8]"});
  ProgramBuilder half({DType::bf16, 2, 4});
  const auto y = half.boundary_in(16);
  expect_words(message_of([&] { half.set_logits(y); }), {"logits are bf16 [8, 16]"});
  expect_words(message_of([&] {
                 half.set_boundary_out(logits(half, y, half.parameter("w", {16, 16}), {}, "z"));
               }),
               {"boundary_out is f32 [8, 16], expected bf16"});
}

TEST(Builder, ObservationsAreReadByNobody) {
  auto builder = small_builder();
  const auto x = builder.boundary_in(16);
  expect_words(message_of([&] { builder.observe("sum", x); }), {"the observation 'sum' is f32 [8, 16], expected i32 or f64 [n]"});
  builder.enter(3, "layers.3");
  builder.observe("sums", moments(builder, x, "moments"));
  builder.set_boundary_out(scale(builder, x, 2.0, "double"));
  const auto program = builder.finish();
  ASSERT_EQ(program.observations.size(), 1U);
  EXPECT_EQ(program.observations[0].name, "sums");
  EXPECT_EQ(program.observations[0].scope, "layers.3");
  EXPECT_EQ(program.observations[0].layer, 3);
  EXPECT_EQ(program.value(program.observations[0].value).name, "layers.3.moments");

  auto other = small_builder();
  const auto tokens = other.batch("tokens");
  other.observe("tokens", tokens);
  other.set_boundary_out(embedding(other, tokens, other.parameter("table", {61, 16}), "embedding"));
  expect_words(message_of([&] { (void)other.finish(); }), {"embedding reads 'tokens', which is observed"});
}

TEST(Builder, AWeightMayHaveSomeOfTheExperts) {
  auto builder = small_builder();
  const auto slice = builder.parameter("up", {2, 4, 6}, {.experts = {3, 8}});
  const auto parts = builder.parameter("down", {2, 4, 6}, {.stored = {.shape = {4, 6}, .parts = {"0", "1", "2", "3"}}, .experts = {2, 4}});
  expect_words(message_of([&] {
                 (void)builder.parameter("a", {2, 4}, {.experts = {7, 8}});
               }),
               {"'a' is [2, 4] from expert 7 on, expected experts of the 8"});
  expect_words(message_of([&] {
                 (void)builder.parameter("b", {2, 4}, {.stored = {.shape = {4}, .parts = {"0", "1"}}, .experts = {0, 4}});
               }),
               {"'b' is [4, 4] and stored as 2 tensors [4]"});
  expect_words(message_of([&] { builder.set_expert_rows(slice, {0, 2}); }), {"'up'", "expected a table i32 [S * 2 + 1]"});
  builder.set_boundary_out(embedding(builder, builder.batch("tokens"), builder.parameter("table", {61, 16}), "embedding"));
  const auto program = builder.finish();
  EXPECT_EQ(program.value(slice).experts, (ExpertSlice{3, 8}));
  EXPECT_EQ(program.value(slice).stored.shape, (kernels::Shape{8, 4, 6})) << "that of the whole tensor";
  EXPECT_EQ(program.value(parts).stored.parts.size(), 4U);
}

TEST(Builder, AStoredFormHasAsManyElements) {
  auto builder = small_builder();
  EXPECT_EQ(builder.type(builder.parameter("a", {4, 6}, {.stored = {.shape = {2, 2, 6}}})).shape, (kernels::Shape{4, 6}));
  EXPECT_EQ(builder.type(builder.parameter("b", {4, 6}, {.stored = {.shape = {6, 4}, .transposed = true}})).shape, (kernels::Shape{4, 6}));
  expect_words(message_of([&] { (void)builder.parameter("c", {4, 6}, {.stored = {.shape = {4, 5}}}); }), {"'c'", "[4, 6]", "[4, 5]"});
  expect_words(message_of([&] { (void)builder.parameter("d", {24}, {.stored = {.shape = {24}, .transposed = true}}); }), {"'d'"});
}

}  // namespace
}  // namespace millrace::runtime
