#include "runtime/program/port.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/program/operations.hpp"
#include "runtime/program/print.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

// Stages with several ports: where these lie in slots, and what the derived programs do with those that are not used, are used twice, or
// are handed on.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;

constexpr std::int64_t tokens = 8;
const ValueType narrow{DType::f32, {tokens, 3}}, wide{DType::f32, {tokens, 8}}, ids{DType::i32, {tokens}};

ProgramBuilder eight_tokens() { return ProgramBuilder({DType::f32, 2, 4}); }

ProgramSet derived(ProgramBuilder& builder) { return differentiate(builder.finish(), {}); }

MemoryPlan planned(const ProgramSet& set, BackwardMode mode) {
  const auto nowhere = [](const Value&) { return Place{Region::master, 0}; };
  return plan_memory(set, mode, {nowhere, nowhere}, 1);
}

std::vector<std::string> operations(const ProgramSet& set, ProgramKind kind) {
  std::vector<std::string> names;
  for (const auto& operation : set.program(kind)) names.push_back(operation.name + " " + std::string(operation.rule->name()));
  return names;
}

TEST(Ports, LieInTheirOrderEachAligned) {
  const std::vector<ValueType> types{ids, narrow, {DType::bf16, {tokens, 5}}, ids, wide};
  const auto activations = activation_slot(types), gradients = gradient_slot(types);
  EXPECT_EQ(activations.offsets, (std::vector<std::size_t>{0, 128, 256, 384, 512}));
  EXPECT_EQ(activations.bytes, 512U + 8 * 8 * 4);
  EXPECT_EQ(gradients.offsets[1], 0U) << "integers have no gradient and take no bytes";
  EXPECT_EQ(gradients.offsets[2], 128U);
  EXPECT_EQ(gradients.offsets[4], 256U);
  EXPECT_EQ(gradients.bytes, 256U + 8 * 8 * 4);
  EXPECT_EQ(activation_slot(std::vector{narrow}).bytes, 8U * 3 * 4) << "the last port is not padded";
  EXPECT_EQ(gradient_slot(std::vector{ids}).bytes, 0U);
  EXPECT_EQ(activation_slot({}).bytes, 0U);
}

TEST(Ports, HaveTheNamesOfTheirPlacesInPrograms) {
  auto builder = eight_tokens();
  const auto x = builder.boundary_in("hidden", wide), keys = builder.boundary_in("keys", narrow);
  EXPECT_EQ(builder.boundary_in("keys", narrow), keys) << "the same value each time";
  builder.set_boundary_out(x);
  builder.set_boundary_out("keys", keys);
  const auto set = derived(builder);
  const auto name = [&](ValueId id) { return set.value(id).name; };
  ASSERT_EQ(set.inputs.size(), 2U);
  EXPECT_EQ(name(set.inputs[0].value), "boundary_in");
  EXPECT_EQ(name(set.inputs[1].value), "boundary_in.keys");
  EXPECT_EQ(name(set.outputs[0].value), "boundary_out");
  EXPECT_EQ(name(set.outputs[1].value), "boundary_out.keys");
  EXPECT_EQ(name(set.outputs[1].gradient), "gradient_in.keys");
  EXPECT_EQ(name(set.inputs[1].gradient), "gradient_out.keys");
}

TEST(Ports, ThatCannotPassAreRefused) {
  const auto refuses = [](auto action, const std::vector<std::string>& words) { tests::expect_error(action, ExitCode::internal, words); };
  auto builder = eight_tokens();
  const auto x = builder.boundary_in(8);
  refuses([&] { (void)builder.boundary_in("hidden", narrow); }, {"boundary_in", "[8, 3]", "[8, 8]"});
  refuses([&] { (void)builder.boundary_in("sum", {DType::f64, {1}}); }, {"'sum' of boundary_in", "f64 [1]", "f32, bf16 or i32"});
  refuses([&] { (void)builder.boundary_in("scalar", {DType::f32, {}}); }, {"'scalar'", "one or more axes"});
  refuses([&] { (void)builder.boundary_in("", wide); }, {"boundary_in has a port without a name"});
  builder.set_boundary_out(x);
  refuses([&] { builder.set_boundary_out(x); }, {"boundary_out has two ports 'hidden'"});
  refuses([&] { builder.set_boundary_out("other", {}); }, {"boundary_out", "not of this program"});
}

/// One stage writes its ports in another order than they leave, the next reads them in another order than they arrive, and not all of
/// them; still both find them at the same places.
TEST(Ports, LieAtTheSamePlaceOnBothSidesWhateverTheProgramsDoWithThem) {
  auto first = eight_tokens();
  const auto x = embedding(first, first.batch("tokens"), first.parameter("table", {11, 8}), "x");
  const auto side = linear(first, x, first.parameter("w", {3, 8}), "side");
  first.set_boundary_out("ids", first.batch("tokens"));
  first.set_boundary_out("side", side);
  first.set_boundary_out("unused", linear(first, x, first.parameter("u", {8, 8}), "unused"));
  first.set_boundary_out(x);
  const auto producer = derived(first);

  auto second = eight_tokens();
  (void)second.boundary_in("ids", ids);
  const auto narrow_in = second.boundary_in("side", narrow);
  (void)second.boundary_in("unused", wide);
  const auto hidden = second.boundary_in(8);
  const auto sum = add(second, hidden, linear(second, narrow_in, second.parameter("v", {8, 3}), "v"), "sum");
  second.loss_term({.name = "loss"},
                   linear_cross_entropy(second, sum, second.parameter("h", {11, 8}), second.batch("targets"), {}, "loss"));
  const auto consumer = derived(second);

  for (const auto mode : {BackwardMode::fused, BackwardMode::split, BackwardMode::forward_only}) {
    const auto out = planned(producer, mode), in = planned(consumer, mode);
    const auto bytes = [](const MemoryPlan& plan, Region region) { return plan.region_bytes[static_cast<std::size_t>(region)]; };
    EXPECT_EQ(bytes(out, Region::boundary_out), bytes(in, Region::boundary_in));
    EXPECT_EQ(bytes(out, Region::gradient_in), bytes(in, Region::gradient_out));
    EXPECT_EQ(bytes(out, Region::gradient_in) == 0, mode == BackwardMode::forward_only);
    for (std::size_t port = 0; port < 4; ++port) {
      const auto place = [&](const MemoryPlan& plan, ValueId id) { return plan.placements[static_cast<std::size_t>(id.index)]; };
      const auto expect_same = [&](const Place& a, Region of_a, const Place& b, Region of_b, std::size_t offset) {
        EXPECT_EQ(a.region, of_a) << port;
        EXPECT_EQ(b.region, of_b) << port;
        EXPECT_EQ(a.offset, offset) << port;
        EXPECT_EQ(b.offset, offset) << port;
      };
      const auto types = consumer.types(consumer.inputs);
      expect_same(place(out, producer.outputs[port].value), Region::boundary_out, place(in, consumer.inputs[port].value),
                  Region::boundary_in, activation_slot(types).offsets[port]);
      EXPECT_EQ(producer.outputs[port].gradient.valid(), port > 0);
      EXPECT_EQ(consumer.inputs[port].gradient.valid(), port > 0);
      if (port > 0 && mode != BackwardMode::forward_only)
        expect_same(place(out, producer.outputs[port].gradient), Region::gradient_in, place(in, consumer.inputs[port].gradient),
                    Region::gradient_out, gradient_slot(types).offsets[port]);
    }
  }
}

TEST(Ports, ThatAreHandedOnUnchangedAreCopiedBothWays) {
  auto builder = eight_tokens();
  const auto x = builder.boundary_in(8), passing = builder.boundary_in("passing", narrow), number = builder.boundary_in("ids", ids);
  builder.set_boundary_out(linear(builder, x, builder.parameter("w", {8, 8}), "w"));
  builder.set_boundary_out("passing", passing);
  builder.set_boundary_out("ids", number);
  const auto set = derived(builder);
  EXPECT_EQ(operations(set, ProgramKind::forward),
            (std::vector<std::string>{"w linear", "boundary_out.passing copy", "boundary_out.ids copy"}));
  EXPECT_EQ(operations(set, ProgramKind::evaluate), operations(set, ProgramKind::forward));
  EXPECT_EQ(operations(set, ProgramKind::input_gradient),
            (std::vector<std::string>{"w.dx linear_input_gradient", "gradient_out.passing copy"}));
  EXPECT_EQ(set.program(ProgramKind::input_gradient).back().inputs[0], set.outputs[1].gradient);
  EXPECT_FALSE(set.inputs[2].gradient.valid());
}

/// An input that is handed on and read too gets the sum of both gradients.
TEST(Ports, AValueThatIsSeveralPortsGetsTheSumOfTheirGradients) {
  auto builder = eight_tokens();
  const auto x = builder.boundary_in(8);
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "y");
  builder.set_boundary_out("a", y);
  builder.set_boundary_out("b", y);
  builder.set_boundary_out("x", x);
  const auto set = derived(builder);
  EXPECT_EQ(set.outputs[0].value, y);
  EXPECT_EQ(operations(set, ProgramKind::forward), (std::vector<std::string>{"y linear", "boundary_out.b copy", "boundary_out.x copy"}));
  const auto& program = set.program(ProgramKind::input_gradient);
  ASSERT_EQ(program.size(), 2U);
  EXPECT_EQ(program[0].rule->name(), "add");
  EXPECT_EQ(program[0].inputs, (std::vector{set.outputs[0].gradient, set.outputs[1].gradient}));
  EXPECT_EQ(kind_of(program[1]), "linear_input_gradient + addend");
  EXPECT_EQ(program[1].inputs.back(), set.outputs[2].gradient);
  EXPECT_EQ(program[1].outputs[0], set.inputs[0].gradient);
}

/// Both inputs of a sum have its gradient, which leaves in two places.
TEST(Ports, AGradientOfSeveralPortsLeavesAsCopies) {
  auto builder = eight_tokens();
  const auto a = builder.boundary_in("a", wide), b = builder.boundary_in("b", wide);
  builder.set_boundary_out(linear(builder, add(builder, a, b, "sum"), builder.parameter("w", {8, 8}), "w"));
  const auto set = derived(builder);
  EXPECT_FALSE(set.inputs[0].gradient == set.inputs[1].gradient);
  EXPECT_EQ(operations(set, ProgramKind::input_gradient).back(), "gradient_out.b copy");
  EXPECT_EQ(set.program(ProgramKind::input_gradient).back().inputs[0], set.inputs[0].gradient);
}

TEST(Ports, WithoutAGradientAreHandedBackAsZeros) {
  SmallNet net;  // the rig's batch
  ProgramBuilder builder({DType::bf16, net.rows, net.sequence});
  const auto x = builder.boundary_in(8);
  (void)builder.boundary_in("ids", {DType::i32, {net.tokens()}});
  (void)builder.boundary_in("unused", {DType::bf16, {net.tokens(), 5}});
  builder.set_boundary_out(linear(builder, x, builder.parameter("w", {8, 8}), "w"));
  for (const auto mode : {BackwardMode::split, BackwardMode::fused}) {
    ProgramBuilder again = builder;
    Rig rig(again.finish(), net, {mode});
    const auto unused = rig.set.inputs.at(2);
    ASSERT_TRUE(unused.gradient.valid());
    EXPECT_EQ(rig.set.value(unused.gradient).name, "gradient_out.unused");
    rig.fill(Region::boundary_in, std::byte{0});
    rig.fill(Region::gradient_in, std::byte{0});
    rig.fill(Region::gradient_out, std::byte{0x3f});
    rig.run(ProgramKind::forward);
    rig.run_backward();
    const auto slot = rig.region(Region::gradient_out);
    const auto layout = gradient_slot(rig.set.types(rig.set.inputs));
    EXPECT_EQ(layout.offsets[2], 128U);
    const auto port = slot.subspan(layout.offsets[2], static_cast<std::size_t>(net.tokens()) * 5 * 2);
    EXPECT_TRUE(std::ranges::all_of(port, [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(slot[layout.bytes], std::byte{0x3f}) << "nothing is written behind the last port";
  }
}

TEST(Ports, ArePrintedWhereThereAreSeveral) {
  auto builder = eight_tokens();
  const auto x = builder.boundary_in(8);
  (void)builder.boundary_in("ids", ids);
  builder.set_boundary_out(linear(builder, x, builder.parameter("w", {8, 8}), "w"));
  const auto set = derived(builder);
  const auto trained = print(set, ProgramKind::forward, planned(set, BackwardMode::fused));
  EXPECT_NE(trained.find("port in   hidden       f32 [8, 8]  boundary_in+0, gradient_out+0\n"), std::string::npos) << trained;
  EXPECT_NE(trained.find("port in   ids          i32 [8]  boundary_in+256\n"), std::string::npos) << trained;
  EXPECT_EQ(trained.find("port out"), std::string::npos) << "the residual stream alone is not listed\n" << trained;
  const auto evaluated = print(set, ProgramKind::evaluate, planned(set, BackwardMode::forward_only));
  EXPECT_NE(evaluated.find("boundary_in+0\n"), std::string::npos) << evaluated;
}

TEST(Ports, OfAProgramForLogitsHaveNoGradients) {
  auto builder = eight_tokens();
  const auto x = builder.boundary_in(8);
  (void)builder.boundary_in("unused", narrow);
  builder.set_logits(logits(builder, x, builder.parameter("h", {11, 8}), {}, "logits"));
  const auto set = derived(builder);
  for (const auto kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient, ProgramKind::backward})
    EXPECT_TRUE(set.program(kind).empty());
  const auto plan = planned(set, BackwardMode::forward_only);
  EXPECT_EQ(plan.placements[static_cast<std::size_t>(set.logits.index)].region, Region::boundary_out);
  EXPECT_EQ(plan.placements[static_cast<std::size_t>(set.logits.index)].offset, 0U);
}

/// The model may be cut behind a value that a layer hands on: its bits must not depend on whether an operation behind it is fused with it.
TEST(Ports, NothingIsFusedWithAValueThatIsHandedOn) {
  for (const bool handed_on : {false, true}) {
    auto builder = eight_tokens();
    const auto x = builder.boundary_in(8);
    const auto product = linear(builder, x, builder.parameter("w", {8, 8}), "w");
    if (handed_on) builder.hand_on(product);
    builder.set_boundary_out(add(builder, x, product, "sum"));
    const auto set = derived(builder);
    EXPECT_EQ(kind_of(set.program(ProgramKind::forward).back()), handed_on ? "add" : "linear + addend");
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
