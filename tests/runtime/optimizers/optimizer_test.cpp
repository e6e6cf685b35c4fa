#include "runtime/optimizers/optimizer.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/adam_pax.hpp"
#include "kernels/adamw.hpp"
#include "kernels/sgd.hpp"
#include "runtime/optimizers/optimizer_config.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

std::vector<std::string> names_of(const TrainConfig& train) {
  const auto optimizer = make_optimizer(train);
  std::vector<std::string> names;
  for (const auto& state : optimizer->states()) names.push_back(state.tensor_name("w"));
  return names;
}

TEST(Optimizer, NamesItsStates) {
  TrainConfig train;
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"adamw.m/w", "adamw.v/w"}));
  train.optimizer = "adam_pax";
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"adam_pax.m/w", "adam_pax.v/w"}));
  train.optimizer = "sgd";
  EXPECT_TRUE(names_of(train).empty());
  train.momentum = 0.5;
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"sgd.momentum/w"}));
}

TEST(Optimizer, HasNamesThatNoOtherHas) {
  TrainConfig train;
  train.momentum = 0.5;
  std::set<std::string> names;
  for (const auto& choice : optimizer_choices) {
    train.optimizer = choice.name;
    const auto optimizer = make_optimizer(train);
    EXPECT_LE(optimizer->states().size(), kernels::max_optimizer_states);
    for (const auto& state : optimizer->states()) EXPECT_TRUE(names.insert(state.name).second) << state.name;
  }
}

TEST(Optimizer, RefusesANameThatIsNotInTheTable) {
  TrainConfig train;
  train.optimizer = "adamv";
  tests::expect_error([&] { (void)make_optimizer(train); }, ExitCode::config, {"\"adamv\"", "adamw, adam_pax, sgd", "did you mean adamw?"});
}

/// One element before and after one update, by the optimizer or by its kernel.
struct Element {
  float parameter = 0.5F, gradient = 0.25F, first = 0.125F, second = 0.0625F;
  bool operator==(const Element&) const = default;
  kernels::OptimizerTensors tensors(bool has_first, bool has_second) {
    const auto tensor = [](float& value) { return kernels::make_tensor(reinterpret_cast<std::byte*>(&value), kernels::DType::f32, {1}); };
    return {tensor(parameter),
            tensor(gradient),
            {},
            {has_first ? tensor(first) : kernels::Tensor{}, has_second ? tensor(second) : kernels::Tensor{}}};
  }
};

// Each key must reach the right argument of its kernel: the values differ so much that swapping two changes the result.
TEST(Optimizer, HandsItsKeysToItsKernel) {
  TrainConfig train;
  train.beta1 = 0.7;
  train.beta2 = 0.8;
  train.epsilon = 0.01;
  train.weight_decay = 0.3;
  train.momentum = 0.6;
  train.nesterov = true;
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  const UpdateScalars step{.learning_rate = 0.1, .gradient_scale = 0.75F, .update = 4};
  for (const char* name : {"adamw", "adam_pax", "sgd"}) {
    train.optimizer = name;
    const bool both = train.optimizer != "sgd";
    Element found, expected;
    auto all = found.tensors(true, both);
    make_optimizer(train)->update(context, step, {&all, 1});
    all = expected.tensors(true, both);
    if (train.optimizer == "adamw") kernels::adamw(context, {0.1, 0.7, 0.8, 0.01, 0.3, 0.75F, 4}, {&all, 1});
    if (train.optimizer == "adam_pax") kernels::adam_pax(context, {0.1, 0.7, 0.8, 0.01, 0.3, 0.75F, 4}, {&all, 1});
    if (train.optimizer == "sgd") kernels::sgd(context, {0.1, 0.6, true, 0.3, 0.75F}, {&all, 1});
    EXPECT_EQ(found, expected) << name;
    EXPECT_NE(found, Element()) << name;
  }
}

TEST(Optimizer, TellsWhichKeysItReads) {
  const auto reads = [](std::size_t index, const char* key) { return optimizer_choices.at(index).reads(key); };
  EXPECT_TRUE(reads(0, "train.beta1"));
  EXPECT_FALSE(reads(0, "train.momentum"));
  EXPECT_TRUE(reads(2, "train.nesterov"));
  EXPECT_FALSE(reads(2, "train.beta2"));
}

}  // namespace
}  // namespace millrace::runtime
