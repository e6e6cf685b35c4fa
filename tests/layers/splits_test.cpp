#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "tests/layers/model_fixture.hpp"

// Numbers do not depend on the layout: splits, rematerialisation, split backward and thread teams of one size give identical
// bits.
namespace millrace::layers::testing {
namespace {

struct Outcome {
  std::vector<std::uint64_t> losses, norms;
  std::vector<std::uint32_t> gradients, parameters;
  bool operator==(const Outcome&) const = default;
};

/// Runs two steps of three microbatches of two rows; the gradients are those of a third step's accumulation.
Outcome train(bool tied, LoopOptions options, std::int64_t microbatches = 3) {
  options.rows = 2;
  options.sequence = 12;
  options.train.weight_decay = 0.1;
  Model model(tiny_model(tied), options);
  model.initialise(7);
  const std::int64_t targets = microbatches * 2 * 11;
  Outcome outcome;
  for (std::int64_t s = 0; s < 2; ++s) {
    const runtime::UpdateScalars scalars{.learning_rate = 1e-2, .update = s + 1};
    const auto fill = rows_of(random_ids(static_cast<std::size_t>(microbatches * 24), 61, static_cast<std::uint32_t>(s + 1)), 2, 12);
    const auto step = model.loop().step(model.context(), microbatches, targets, fill, scalars, 1.0);
    outcome.losses.push_back(std::bit_cast<std::uint64_t>(step.loss));
    outcome.norms.push_back(std::bit_cast<std::uint64_t>(step.norm));
  }
  outcome.parameters = model.parameter_bits();
  const auto fill = rows_of(random_ids(static_cast<std::size_t>(microbatches * 24), 61, 9), 2, 12);
  (void)model.loop().accumulate(model.context(), microbatches, targets, fill);
  outcome.gradients = model.gradient_bits();
  return outcome;
}

LoopOptions in_dtype(kernels::DType compute) {
  LoopOptions options;
  options.compute = compute;
  return options;
}

class Splits : public ::testing::TestWithParam<std::tuple<bool, kernels::DType>> {
 protected:
  [[nodiscard]] bool tied() const { return std::get<0>(GetParam()); }
  [[nodiscard]] LoopOptions options() const { return in_dtype(std::get<1>(GetParam())); }
};

TEST_P(Splits, StagesKeepTheBits) {
  const Outcome whole = train(tied(), options());
  for (const char* layout : {"E t*2 | t*2 H", "E t | t*2 | t H", "E | t | t*3 | H", "E t*4 | | H"}) {
    LoopOptions cut = options();
    cut.layout = layout;
    EXPECT_TRUE(train(tied(), cut) == whole) << layout;
  }
}

TEST_P(Splits, SplitBackwardKeepsTheBits) {
  const Outcome whole = train(tied(), options());
  LoopOptions split = options();
  split.mode = runtime::BackwardMode::split;
  EXPECT_TRUE(train(tied(), split) == whole);
  split.layout = "E t | t*2 | t H";
  split.rematerialize = "full";
  EXPECT_TRUE(train(tied(), split) == whole);
}

TEST_P(Splits, RematerialisationKeepsTheBits) {
  const Outcome whole = train(tied(), options());
  for (const char* policy : {"full", "minimal", "save_qkv_proj", "save_out_proj", "minimal_with_context", "mlpwo,query_proj"}) {
    LoopOptions again = options();
    again.rematerialize = policy;
    EXPECT_TRUE(train(tied(), again) == whole) << policy;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Splits,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(kernels::DType::f32, kernels::DType::bf16)),
                         [](const auto& model) {
                           return std::string(std::get<0>(model.param) ? "tied_" : "untied_") +
                                  std::string(kernels::to_string(std::get<1>(model.param)));
                         });

/// Gradients of MaxText's Llama with dropout; `sample` is that of the first row, and the others count up from it.
std::vector<std::uint32_t> gradients_with_dropout(LoopOptions options, std::int32_t sample, double rate = 0.3) {
  ModelConfig config = tiny_model(false);
  config.family = "llama2";
  config.numerics = "maxtext";
  config.dropout_rate = rate;
  options.rows = 2;
  options.sequence = 12;
  Model model(config, options);
  model.initialise(7);
  const auto fill = [sample, rows = rows_of(random_ids(48, 61, 9), 2, 12)](std::int64_t m, const runtime::BatchView& batch) {
    rows(m, batch);
    for (std::size_t t = 0; t < batch.samples.size(); ++t)
      batch.samples[t] = sample == 0 ? 0 : sample + static_cast<std::int32_t>(2 * m + static_cast<std::int64_t>(t) / 12);
  };
  (void)model.loop().accumulate(model.context(), 2, 44, fill);
  return model.gradient_bits();
}

TEST(Dropout, IsTheSameForEveryLayoutAndOtherForEverySample) {
  const auto whole = gradients_with_dropout({}, 5);
  LoopOptions other;
  other.layout = "E t*2 | t*2 H";
  EXPECT_EQ(gradients_with_dropout(other, 5), whole);
  other.rematerialize = "full";
  other.mode = runtime::BackwardMode::split;
  EXPECT_EQ(gradients_with_dropout(other, 5), whole);
  EXPECT_NE(gradients_with_dropout({}, 6), whole);
  EXPECT_EQ(gradients_with_dropout({}, 0), gradients_with_dropout({}, 5, 0));  // without samples, as in evaluation, nothing is dropped
}

TEST(Rematerialisation, FullKeepsLessThanNone) {
  LoopOptions options;
  options.rows = 2;
  options.sequence = 12;
  Model keeps(tiny_model(false), options);
  options.rematerialize = "full";
  Model recomputes(tiny_model(false), options);
  const auto stash = [](Model& model) { return model.loop().rank().memory().plan().bytes(runtime::MemoryKind::stash_input); };
  EXPECT_LT(stash(recomputes), stash(keeps) / 2);
}

TEST(Accumulators, TwoPartsAreAdded) {
  LoopOptions two;
  two.accumulators = 2;
  LoopOptions two_cut = two;
  two_cut.layout = "E t*2 | t*2 H";
  EXPECT_TRUE(train(false, two, 4) == train(false, two_cut, 4));
  // The sum of two parts is close to the sum of one, but not in the same bits.
  LoopOptions options;
  options.rows = 2;
  options.sequence = 12;
  Model one_set(tiny_model(false), options);
  options.accumulators = 2;
  Model two_sets(tiny_model(false), options);
  const auto fill = rows_of(random_ids(96, 61, 3), 2, 12);
  for (Model* model : {&one_set, &two_sets}) {
    model->initialise(7);
    (void)model->loop().accumulate(model->context(), 4, 88, fill);
  }
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const auto wanted = one_set.gradient(name);
  EXPECT_LE(largest_difference(two_sets.gradient(name), wanted), 1e-5 * largest(wanted));
  EXPECT_GT(largest(wanted), 0);
}

// Weights of experts take the microbatches into sums of their own, so their number does not follow from that of the others.
TEST(Accumulators, ThoseOfExpertsAreCountedApart) {
  ModelConfig config = tiny_model(false);
  config.family = "mixtral";
  config.experts = 4;
  config.experts_per_token = 2;
  config.moe_intermediate_size = 16;
  const auto fill = rows_of(random_ids(96, 61, 3), 2, 12);
  const auto gradients = [&](int accumulators, int expert_accumulators) {
    LoopOptions options;
    options.rows = 2;
    options.sequence = 12;
    options.layout = "E t*2 | t*2 H";
    options.accumulators = accumulators;
    options.expert_accumulators = expert_accumulators;
    Model model(config, options);
    model.initialise(7);
    (void)model.loop().accumulate(model.context(), 4, 88, fill);
    std::map<bool, std::vector<std::vector<float>>> values;  // by whether they are of experts
    for (const ParameterSpec& spec : model_parameters(config)) values[spec.experts.present()].push_back(model.gradient(spec.name));
    return values;
  };
  auto one = gradients(1, 1), dense = gradients(4, 1), experts = gradients(1, 2), both = gradients(4, 2);
  EXPECT_FALSE(one[true].empty());
  EXPECT_EQ(dense[true], one[true]);
  EXPECT_NE(dense[false], one[false]);
  EXPECT_EQ(experts[false], one[false]);
  EXPECT_NE(experts[true], one[true]);
  EXPECT_EQ(both[false], dense[false]);
  EXPECT_EQ(both[true], experts[true]);
}

// The sum of four parts is that of the even and the odd ones: written out, with the parts as runs of their own.
TEST(Accumulators, AreAddedAsATree) {
  LoopOptions options;
  options.rows = 2;
  options.sequence = 12;
  const auto ids = random_ids(96, 61, 3);
  const auto fill = rows_of(ids, 2, 12);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  std::vector<std::vector<float>> parts;
  for (std::int64_t m = 0; m < 4; ++m) {
    Model model(tiny_model(false), options);
    model.initialise(7);
    (void)model.loop().accumulate(model.context(), 1, 88, [&](std::int64_t, const runtime::BatchView& batch) { fill(m, batch); });
    parts.push_back(model.gradient(name));
  }
  options.accumulators = 4;
  Model model(tiny_model(false), options);
  model.initialise(7);
  (void)model.loop().accumulate(model.context(), 4, 88, fill);
  std::vector<float> tree, chain;
  for (std::size_t i = 0; i < parts[0].size(); ++i) {
    tree.push_back((parts[0][i] + parts[2][i]) + (parts[1][i] + parts[3][i]));
    chain.push_back(((parts[0][i] + parts[1][i]) + parts[2][i]) + parts[3][i]);
  }
  EXPECT_EQ(model.gradient(name), tree);
  EXPECT_NE(tree, chain);
}

/// The gradients of one microbatch after another, as a run of its own would have them, and their sum in order.
std::map<std::string, std::vector<float>> chained_gradients(const ModelConfig& config, const LoopOptions& options,
                                                            const runtime::FillBatch& fill, std::int64_t microbatches) {
  std::map<std::string, std::vector<float>> sums;
  for (std::int64_t m = 0; m < microbatches; ++m) {
    Model model(config, options);
    model.initialise(7);
    (void)model.loop().accumulate(model.context(), 1, 88, [&](std::int64_t, const runtime::BatchView& batch) { fill(m, batch); });
    for (const ParameterSpec& spec : model_parameters(config)) {
      auto& sum = sums[spec.name];
      const auto gradient = model.gradient(spec.name);
      sum.resize(gradient.size(), 0.0F);
      for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i];
    }
  }
  return sums;
}

// Each microbatch's gradient is formed from 0 and then added, whatever the stages and the kind of backward. 200 tokens are several of the
// stretches that a weight gradient takes one after another, so that adding them to the sum one by one has other bits.
TEST(Accumulators, MayAddTheGradientsOfMicrobatches) {
  LoopOptions options;
  options.rows = 2;
  options.sequence = 100;
  const auto fill = rows_of(random_ids(600, 61, 3), 2, 100);
  const auto expected = chained_gradients(tiny_model(false), options, fill, 3);
  const auto gradients = [&](const LoopOptions& with) {
    Model model(tiny_model(false), with);
    model.initialise(7);
    std::map<std::string, std::vector<float>> found;
    // The second time the leaf is used again.
    for (int time = 0; time < 2; ++time) {
      for (const auto* stage : model.stages()) stage->shard().zero_accumulators(model.context());
      (void)model.loop().accumulate(model.context(), 3, 88, fill);
    }
    for (const ParameterSpec& spec : model_parameters(tiny_model(false))) found[spec.name] = model.gradient(spec.name);
    return found;
  };
  EXPECT_NE(gradients(options), expected);
  options.leaves = 1;
  EXPECT_EQ(gradients(options), expected);
  options.layout = "E t*2 | t*2 H";
  options.mode = runtime::BackwardMode::split;
  EXPECT_EQ(gradients(options), expected);
}

TEST(TiedTable, SumsBothUsesAndCountsOnce) {
  LoopOptions options;
  options.rows = 2;
  options.sequence = 12;
  options.layout = "E t*2 | t*2 H";
  Model tied(tiny_model(true), options);
  Model untied(tiny_model(false), options);
  tied.initialise(7);
  untied.initialise(7);
  // The untied model with the same table in both places: its two gradients belong to the two uses.
  const auto table = untied.master("model.embed_tokens.weight");
  const auto head = untied.master("lm_head.weight");
  std::copy(table.begin(), table.end(), head.begin());
  const auto fill = rows_of(random_ids(24, 61, 3), 2, 12);
  for (Model* model : {&tied, &untied}) (void)model->loop().accumulate(model->context(), 1, 22, fill);
  auto sum = untied.gradient("model.embed_tokens.weight");
  const auto second = untied.gradient("lm_head.weight");
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
  EXPECT_EQ(tied.gradient("model.embed_tokens.weight"), sum);
  const auto sums = runtime::square_sums(tied.context(), tied.stages());
  EXPECT_EQ(sums.size(), model_parameters(tied.config()).size());
}

TEST(Threads, TeamsOfTwoAgreeAmongThemselves) {
  LoopOptions two;
  two.threads = 2;
  LoopOptions two_cut = two;
  two_cut.layout = "E t*3 | t H";
  EXPECT_TRUE(train(true, two) == train(true, two_cut));
}

}  // namespace
}  // namespace millrace::layers::testing
