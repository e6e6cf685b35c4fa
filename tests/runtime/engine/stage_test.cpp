#include "runtime/engine/stage.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/engine/optimizer_step.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

using layers::testing::LoopOptions;
using layers::testing::Model;
using layers::testing::random_ids;
using layers::testing::rows_of;
using layers::testing::tiny_model;

LoopOptions small(const char* layout = "E t*2 | t*2 H") {
  LoopOptions options;
  options.layout = layout;
  options.rows = 2;
  options.sequence = 12;
  return options;
}

TEST(Stage, EvaluationGivesTheTrainingLoss) {
  Model model(tiny_model(false), small());
  model.initialise(1);
  const auto fill = rows_of(random_ids(48, 61, 3), 2, 12);
  const auto evaluated = model.loop().evaluate(model.context(), 2, fill);
  const auto trained = model.loop().accumulate(model.context(), 2, 44, fill);
  EXPECT_EQ(evaluated.mean().total, trained.mean().total);
  EXPECT_EQ(evaluated.targets, 44);
}

TEST(Stage, AccumulatorsAreZeroAfterTheUpdate) {
  Model model(tiny_model(true), small());
  model.initialise(1);
  UpdateScalars scalars{.learning_rate = 1e-3};
  (void)model.loop().step(model.context(), 1, 22, rows_of(random_ids(24, 61, 3), 2, 12), scalars, 1.0);
  for (const Stage* stage : model.stages()) {
    ASSERT_EQ(stage->shard().accumulators().size(), 1U);
    EXPECT_FALSE(stage->shard().accumulators().front().empty());
    for (const auto& sum : stage->shard().accumulators().front())
      for (std::int64_t i = 0; i < sum.elements(); ++i) ASSERT_EQ(sum.as<float>()[i], 0.0F) << "stage " << stage->stage().value;
  }
}

TEST(Stage, ABadStepChangesNothing) {
  Model model(tiny_model(false), small());
  model.initialise(1);
  model.master("model.layers.1.mlp.down_proj.weight")[5] = std::numeric_limits<float>::quiet_NaN();
  model.refresh_copies();
  const auto before = model.parameter_bits();
  UpdateScalars scalars{.learning_rate = 1e-3};
  tests::expect_error([&] { (void)model.loop().step(model.context(), 1, 22, rows_of(random_ids(24, 61, 3), 2, 12), scalars, 1.0); },
                      ExitCode::numerics, {"finite"});
  EXPECT_EQ(model.parameter_bits(), before);
}

TEST(Stage, DecayMovesMatricesOnly) {
  auto options = small();
  options.train.weight_decay = 0.5;
  Model model(tiny_model(false), options);
  model.initialise(1);
  const auto norm = model.parameter("model.norm.weight"), matrix = model.parameter("model.layers.0.mlp.up_proj.weight");
  for (const Stage* stage : model.stages()) {
    stage->shard().zero_accumulators(model.context());
    apply_optimizer(model.context(), {.learning_rate = 0.5}, stage->shard());  // gradients are zero, so only weight decay changes anything
  }
  EXPECT_EQ(model.parameter("model.norm.weight"), norm);
  const auto decayed = model.parameter("model.layers.0.mlp.up_proj.weight");
  for (std::size_t i = 0; i < matrix.size(); ++i) ASSERT_FLOAT_EQ(decayed[i], matrix[i] * 0.75F);
}

TEST(Stage, LogitsNeedAProgram) {
  Model model(tiny_model(false), small());
  EXPECT_FALSE(model.loop().rank().stage(StageId{0}).has_logits());
  EXPECT_TRUE(model.loop().rank().stage(StageId{1}).has_logits());
  tests::expect_error([&] { (void)model.loop().rank().stage(StageId{0}).plan(Pass::logits); }, ExitCode::internal, {"stage 0", "logits"});
  tests::expect_error([&] { (void)model.loop().rank().stage(StageId{2}); }, ExitCode::internal, {"stage 2"});
}

// A step without a pipeline holds one microbatch and nothing twice.
TEST(Stage, TheSequentialTrainerHasOneSlotOfEverything) {
  for (const char* layout : {"E t*4 H", "E t*2 | t*2 H", "E | t*4 | H"})
    for (const auto mode : {BackwardMode::fused, BackwardMode::split}) {
      auto options = small(layout);
      options.mode = mode;
      Model model(tiny_model(false), options);
      for (const MemorySection& section : model.loop().rank().memory().plan().sections()) {
        if (section.kind == MemoryKind::constant || section.kind == MemoryKind::state) continue;  // one per program, one per state
        EXPECT_EQ(section.slots, 1) << layout << " " << to_string(section.kind);
      }
    }
}

TEST(Stage, ABatchMayBeASingleToken) {
  LoopOptions options;  // a row of one token
  Model model(tiny_model(false), options);
  const auto batch = model.loop().rank().batch(0);
  for (const auto field : {batch.tokens, batch.positions, batch.segments, batch.targets}) EXPECT_EQ(field.size(), 1U);
}

TEST(Snapshot, KeepsTheStepWhileTheNextOneRuns) {
  auto options = small();
  options.staging = true;
  Model model(tiny_model(true), options);
  model.initialise(1);
  UpdateScalars scalars{.learning_rate = 1e-3};
  const auto fill = rows_of(random_ids(24, 61, 3), 2, 12);
  (void)model.loop().step(model.context(), 1, 22, fill, scalars, 1.0);
  const auto bytes = [](std::span<const float> values) {
    const auto raw = std::as_bytes(values);
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  std::vector<std::vector<std::byte>> wanted;
  for (const Stage* stage : model.stages()) {
    const StageShard& shard = stage->shard();
    for (const auto& tensor : shard.tensors()) {
      wanted.push_back(bytes(shard.master(tensor.name)));
      for (std::size_t state = 0; state < shard.states().size(); ++state) wanted.push_back(bytes(shard.state(tensor.name, state)));
    }
    shard.take_snapshot(model.context());
  }
  scalars.update = 2;
  (void)model.loop().step(model.context(), 1, 22, fill, scalars, 1.0);
  std::size_t next = 0;
  for (const Stage* stage : model.stages()) {
    const StageShard& shard = stage->shard();
    for (const auto& tensor : shard.tensors()) {
      for (const auto kept : {shard.snapshot_master(tensor), shard.snapshot_state(tensor, 0), shard.snapshot_state(tensor, 1)}) {
        EXPECT_EQ(std::vector<std::byte>(kept.begin(), kept.end()), wanted.at(next++)) << tensor.name;
      }
      EXPECT_NE(bytes(shard.master(tensor.name)), wanted.at(next - 3)) << tensor.name << ": the next step moved nothing";
    }
  }
}

TEST(Norm, AddsInModelOrderAndEachTensorOnce) {
  const std::vector<TensorSquareSum> sums = {{2, 1.0}, {0, 1e16}, {1, 1.0}};
  EXPECT_EQ(global_norm(sums), std::sqrt((1e16 + 1.0) + 1.0));
  const std::vector<TensorSquareSum> twice = {{1, 1.0}, {1, 1.0}};
  tests::expect_error([&] { (void)global_norm(twice); }, ExitCode::internal, {"tensor 1"});
}

// Expert by expert within a tensor, then tensor by tensor: not all experts in one chain.
TEST(Norm, AddsThePiecesOfATensorInOrder) {
  const std::vector<TensorSquareSum> sums = {{1, 1.0, 2, 3}, {0, 1e16}, {1, 1.0, 0, 3}, {1, 1.0, 1, 3}};
  EXPECT_EQ(global_norm(sums), std::sqrt(1e16 + 3.0));
  const auto without = [&](std::size_t which) {
    auto some = sums;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(which));
    return some;
  };
  tests::expect_error([&] { (void)global_norm(without(0)); }, ExitCode::internal, {"tensor 1 has no more after 2 of its 3"});
  tests::expect_error([&] { (void)global_norm(without(2)); }, ExitCode::internal, {"tensor 1 has that of piece 1 of 3 after 0 of its 3"});
  auto twice = sums;
  twice.push_back(sums[0]);
  tests::expect_error([&] { (void)global_norm(twice); }, ExitCode::internal, {"tensor 1", "piece 2 of 3 after 3 of its 3"});
}

TEST(Clip, ScalesDownOnly) {
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0F);
  EXPECT_FLOAT_EQ(clip_scale(4.0, 1.0), 0.25F);
  EXPECT_EQ(clip_scale(4.0, 0.0), 1.0F);
  EXPECT_EQ(clip_scale(4.0, -1.0), 1.0F);
  // If the norm is small, the 1e-6 that PyTorch adds to it has an effect.
  EXPECT_EQ(clip_scale(1e-6, 1e-6), 0.5F);
  EXPECT_EQ(clip_scale(0.0, 5e-7), 0.5F);
}

}  // namespace
}  // namespace millrace::runtime
