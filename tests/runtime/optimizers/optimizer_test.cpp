#include "runtime/optimizers/optimizer.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "kernels/adam_pax.hpp"
#include "kernels/adamw.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/muon.hpp"
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

kernels::Tensor tensor(float& value) { return kernels::make_tensor(&value, kernels::DType::f32, {1}); }

TEST(Optimizer, NamesItsStates) {
  TrainConfig train;
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"adamw.m/w", "adamw.v/w"}));
  train.optimizer = "adam_pax";
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"adam_pax.m/w", "adam_pax.v/w"}));
  train.optimizer = "sgd";
  EXPECT_TRUE(names_of(train).empty());
  train.momentum = 0.5;
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"sgd.momentum/w"}));
  train.optimizer = "muon";
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"muon.momentum/w", "muon.adamw.m/w", "muon.adamw.v/w"}));
  train.numerics = "maxtext";
  EXPECT_EQ(names_of(train), (std::vector<std::string>{"muon.momentum/w", "muon.nadamw.m/w", "muon.nadamw.v/w"}));
}

TEST(Optimizer, NamesItsKernels) {
  TrainConfig train;
  const auto kernels_of = [&](const char* optimizer) {
    train.optimizer = optimizer;
    std::vector<std::string> names;
    for (const kernels::KernelRow* row : make_optimizer(train)->kernel_rows()) names.emplace_back(row->name());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(kernels_of("adamw"), Names{"adamw"});
  EXPECT_EQ(kernels_of("adam_pax"), Names{"adam_pax"});
  EXPECT_EQ(kernels_of("sgd"), Names{"sgd"});
  EXPECT_EQ(kernels_of("muon"),
            (Names{"muon_momentum", "square_sums", "muon_normalize", "matmul", "muon_polynomial", "muon_step", "adamw"}));
  train.average_decay = 0.5;
  EXPECT_EQ(kernels_of("sgd"), (Names{"sgd", "move_average"}));
}

TEST(Optimizer, HasItsKernelsOnEveryDeviceOfTheBuild) {
  std::vector<kernels::Device> devices{{}};
  if (kernels::why_no_cuda().empty()) devices.push_back({kernels::DeviceKind::cuda, 0});
  TrainConfig train;
  train.average_decay = 0.5;
  for (const auto& choice : optimizer_choices)
    for (const kernels::Device device : devices) {
      train.optimizer = choice.name;
      EXPECT_NO_THROW(require_kernels(make_optimizer(train)->kernel_rows(), device, "test", choice.name)) << choice.name;
    }
}

TEST(Optimizer, KeepsAnAverageBesideAnyOther) {
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  for (const auto& choice : optimizer_choices) {
    for (const kernels::MatrixForm& form : {kernels::MatrixForm{}, kernels::MatrixForm{1, 1, 1}}) {
      TrainConfig train;
      train.optimizer = choice.name;
      train.momentum = 0.5;
      const auto plain = make_optimizer(train);
      train.average_decay = 0.75;
      const auto averaged = make_optimizer(train);
      ASSERT_EQ(averaged->states().size(), plain->states().size() + 1);
      EXPECT_EQ(averaged->states().back().tensor_name("w"), "average/w");
      EXPECT_TRUE(averaged->states().back().begins_as_parameter);
      EXPECT_TRUE(averaged->keeps(plain->states().size(), form));
      float parameter = 0.5F, gradient = 0.25F, average = 2.0F, alone = 0.5F, same_gradient = 0.25F;
      float states[2] = {}, own_states[2] = {};
      std::size_t kept = 0;
      for (std::size_t state = 0; state < plain->states().size(); ++state) kept += plain->keeps(state, form) ? 1 : 0;
      kernels::OptimizerTensors with{tensor(parameter), tensor(gradient), {}, {}, true, form},
          without{tensor(alone), tensor(same_gradient), {}, {}, true, form};
      for (std::size_t i = 0; i < kept; ++i) {
        with.states.at(i) = tensor(states[i]);
        without.states.at(i) = tensor(own_states[i]);
      }
      with.states.at(kept) = tensor(average);
      const kernels::Buffer scratch(std::max<std::size_t>(plain->scratch_bytes(form, context.processor()), 1));
      plain->update(context, {.learning_rate = 0.1}, {&without, 1}, scratch.bytes());
      averaged->update(context, {.learning_rate = 0.1}, {&with, 1}, scratch.bytes());
      EXPECT_EQ(parameter, alone) << choice.name;
      EXPECT_FLOAT_EQ(average, 2.0F + 0.25F * (parameter - 2.0F)) << choice.name;
    }
  }
}

TEST(Optimizer, TakesTheWeightDecayOfAGroupInPlaceOfItsOwn) {
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  for (const auto& choice : optimizer_choices) {
    for (const kernels::MatrixForm& form : {kernels::MatrixForm{}, kernels::MatrixForm{1, 1, 1}}) {
      TrainConfig train;
      train.optimizer = choice.name;
      const auto updated = [&](double own, std::optional<double> of_group) {
        train.weight_decay = train.muon_weight_decay = own;
        const auto optimizer = make_optimizer(train);
        float parameter = 0.5F, gradient = 0.25F;
        float states[2] = {};
        kernels::OptimizerTensors tensors{tensor(parameter), tensor(gradient), {}, {}, true, form};
        std::size_t kept = 0;
        for (std::size_t state = 0; state < optimizer->states().size(); ++state)
          if (optimizer->keeps(state, form)) {
            tensors.states.at(kept) = tensor(states[kept]);
            ++kept;
          }
        const kernels::Buffer scratch(std::max<std::size_t>(optimizer->scratch_bytes(form, context.processor()), 1));
        optimizer->update(context, {.learning_rate = 0.1, .weight_decay = of_group}, {&tensors, 1}, scratch.bytes());
        return parameter;
      };
      EXPECT_EQ(updated(0.5, 0.25), updated(0.25, std::nullopt)) << choice.name;
      EXPECT_NE(updated(0.5, 0.25), updated(0.5, std::nullopt)) << choice.name;
    }
  }
}

TEST(Optimizer, KeepsForMatricesWhatMuonNeeds) {
  TrainConfig train;
  train.optimizer = "muon";
  const auto muon = make_optimizer(train);
  const kernels::MatrixForm matrix{.count = 1, .rows = 3, .columns = 5}, none;
  const kernels::Processor processor{{}, 2};
  EXPECT_TRUE(muon->keeps(0, matrix));
  EXPECT_FALSE(muon->keeps(1, matrix));
  EXPECT_FALSE(muon->keeps(2, matrix));
  EXPECT_FALSE(muon->keeps(0, none));
  EXPECT_TRUE(muon->keeps(1, none));
  EXPECT_TRUE(muon->keeps(2, none));
  EXPECT_EQ(muon->scratch_bytes(none, processor), 0U);
  EXPECT_GE(muon->scratch_bytes(matrix, processor), (15 + 9 + 9) * sizeof(float));
}

TEST(Optimizer, HasNamesThatNoOtherHas) {
  TrainConfig train;
  train.momentum = 0.5;
  std::set<std::string> names;
  for (const auto& choice : optimizer_choices) {
    train.optimizer = choice.name;
    const auto optimizer = make_optimizer(train);
    for (const kernels::MatrixForm& form : {kernels::MatrixForm{}, kernels::MatrixForm{1, 2, 2}}) {
      std::size_t kept = 0;
      for (std::size_t state = 0; state < optimizer->states().size(); ++state) kept += optimizer->keeps(state, form) ? 1 : 0;
      EXPECT_LE(kept, kernels::max_optimizer_states);
    }
    for (const auto& state : optimizer->states()) EXPECT_TRUE(names.insert(state.name).second) << state.name;
  }
}

TEST(Optimizer, RefusesANameThatIsNotInTheTable) {
  TrainConfig train;
  train.optimizer = "adamv";
  tests::expect_error([&] { (void)make_optimizer(train); }, ExitCode::config,
                      {"\"adamv\"", "adamw, adam_pax, sgd, muon", "did you mean adamw?"});
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
  train.muon_beta = 0.9;
  train.muon_consistent_rms = 0.4;
  train.muon_weight_decay = 0.2;
  for (const char* name : {"adamw", "adam_pax", "sgd", "muon", "muon of a matrix", "muon of maxtext", "muon of a maxtext matrix"}) {
    const std::string_view which = name;
    train.optimizer = which.starts_with("muon") ? "muon" : name;
    train.numerics = which.find("maxtext") == std::string_view::npos ? "hf" : "maxtext";
    const bool matrix = which.ends_with("matrix"), both = which != "sgd" && !matrix;
    const auto tensors_of = [&](Element& element) {
      auto tensors = element.tensors(true, both);
      if (matrix) tensors.matrices = {.count = 1, .rows = 1, .columns = 1};
      return tensors;
    };
    Element found, expected;
    auto all = tensors_of(found);
    const auto optimizer = make_optimizer(train);
    const kernels::Buffer scratch(std::max<std::size_t>(optimizer->scratch_bytes(all.matrices, context.processor()), 1));
    optimizer->update(context, step, {&all, 1}, scratch.bytes());
    all = tensors_of(expected);
    const auto muon = [&](kernels::MuonForm form) {
      kernels::muon(context, {form, 0.1, 0.9, 0.01, 0.4, 0.2, 0.75F, 4}, {&all, 1}, scratch.bytes());
    };
    if (which == "muon") kernels::adamw(context, {0.1, 0.7, 0.8, 0.01, 0.3, 0.75F, 4}, {&all, 1});
    if (which == "muon of maxtext") kernels::adamw(context, {0.1, 0.7, 0.8, 0.01, 0.3, 0.75F, 4, true}, {&all, 1});
    if (which == "muon of a matrix") muon(kernels::MuonForm::torch);
    if (which == "muon of a maxtext matrix") muon(kernels::MuonForm::optax);
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
