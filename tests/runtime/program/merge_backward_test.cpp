#include "runtime/passes/merge_backward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/passes/differentiate.hpp"
#include "tests/runtime/program/small_net.hpp"

namespace millrace::runtime::testing {
namespace {

TEST(MergeBackward, WeightGradientsStandRightAfterTheirLastOperand) {
  const auto set = differentiate(build(SmallNet{}), {});
  const auto& backward = set.program(ProgramKind::backward);
  std::set<int> written;
  for (const auto kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient})
    for (const auto& operation : set.program(kind))
      for (const auto output : operation.outputs) written.insert(output.index);
  std::vector<int> fresh;  // results of the last operation of I
  std::set<int> done;
  for (const auto& operation : backward) {
    const bool weight = set.value(operation.outputs[0]).role == Role::accumulator;
    for (const auto input : operation.inputs) {
      const bool there = !written.contains(input.index) || done.contains(input.index);
      EXPECT_TRUE(there) << operation.name << " reads what is not there yet";
    }
    if (weight) {
      EXPECT_TRUE(std::any_of(operation.inputs.begin(), operation.inputs.end(),
                              [&](ValueId id) { return std::find(fresh.begin(), fresh.end(), id.index) != fresh.end(); }))
          << operation.name << " comes late";
    } else {
      fresh.clear();
    }
    for (const auto output : operation.outputs) {
      done.insert(output.index);
      if (!weight) fresh.push_back(output.index);
    }
  }
}

TEST(MergeBackward, AWeightGradientThatNeedsNothingOfIComesBeforeIt) {
  SmallNet middle;
  middle.first = middle.last = false;
  const auto set = differentiate(build(middle), {});
  // The last product needs its own input and the incoming gradient.
  EXPECT_EQ(set.program(ProgramKind::backward).front().name, "layers.1.down.dw");
  EXPECT_EQ(set.program(ProgramKind::backward)[1].name, set.program(ProgramKind::input_gradient).front().name);
}

TEST(MergeBackward, OnlyTheHeadIsFusedAndNothingIsLost) {
  const auto set = differentiate(build(SmallNet{}), {});
  const auto& backward = set.program(ProgramKind::backward);
  EXPECT_EQ(backward.size() + 1, set.program(ProgramKind::input_gradient).size() + set.program(ProgramKind::weight_gradient).size());
  EXPECT_EQ(backward.front().rule->name(), "linear_cross_entropy_gradients");
  ASSERT_EQ(backward.front().outputs.size(), 4U);
  EXPECT_EQ(backward.front().outputs[1], set.losses.at(0).value);
  EXPECT_EQ(set.value(backward.front().outputs[3]).role, Role::accumulator);
}

TEST(MergeBackward, AnAccumulatorTakesItsSumsInOrder) {
  ProgramBuilder builder({kernels::DType::f32, 1, 4});
  const auto w = builder.parameter("w", {8, 8});
  auto x = builder.boundary_in(8);
  for (int i = 0; i < 3; ++i) x = linear(builder, x, w, "linear" + std::to_string(i));
  builder.set_boundary_out(x);
  const auto set = differentiate(builder.finish(), {});
  std::vector<std::string> order, merged;
  for (const auto& operation : set.program(ProgramKind::weight_gradient)) order.push_back(operation.name);
  for (const auto& operation : set.program(ProgramKind::backward))
    if (set.value(operation.outputs[0]).role == Role::accumulator) merged.push_back(operation.name);
  EXPECT_EQ(order, (std::vector<std::string>{"linear2.dw", "linear1.dw", "linear0.dw"}));
  EXPECT_EQ(merged, order);
}

}  // namespace
}  // namespace millrace::runtime::testing
