#include "runtime/optimizers/matrix_rule.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

using kernels::MatrixForm;

MatrixRule rule(bool inputs_first, std::vector<std::string> exclude = {}) {
  TrainConfig train;
  train.optimizer = "muon";
  train.muon_exclude = std::move(exclude);
  return MatrixRule(train, inputs_first);
}

TEST(MatrixRule, TakesTheLastTwoAxesAndCountsTheOthers) {
  EXPECT_EQ(rule(false).matrices("model.layers.0.mlp.up_proj.weight", {40, 16}, {}), (MatrixForm{1, 40, 16, true}));
  EXPECT_EQ(rule(true).matrices("decoder.layers_0.mlp.wi_0.kernel", {16, 40}, {}), (MatrixForm{1, 16, 40, false}));
  EXPECT_EQ(rule(true).matrices("decoder.layers_0.MoeBlock_0.wi_0", {8, 16, 40}, {}), (MatrixForm{8, 16, 40, false}));
  EXPECT_EQ(rule(false).matrices("model.layers.0.mlp.experts.up_proj", {8, 40, 16}, {}), (MatrixForm{8, 40, 16, true}));
}

TEST(MatrixRule, SeesPartsThatAreStoredApartAsMatricesOfTheirOwn) {
  const StoredForm experts{.shape = {40, 16}, .parts = {"0", "1", "2"}}, halves{.shape = {20, 16}, .parts = {"gate", "up"}};
  EXPECT_EQ(rule(false).matrices("experts.w1.weight", {3, 40, 16}, experts), (MatrixForm{3, 40, 16, true}));
  EXPECT_EQ(rule(false).matrices("mlp.gate_up.weight", {40, 16}, halves), (MatrixForm{2, 20, 16, true}));
  const StoredForm vectors{.shape = {40}, .parts = {"0", "1", "2"}};
  EXPECT_EQ(rule(false).matrices("experts.w1.gains", {3, 40}, vectors).count, 0);
  const StoredForm transposed{.shape = {40, 16}, .transposed = true};
  EXPECT_EQ(rule(false).matrices("w", {16, 40}, transposed), (MatrixForm{1, 16, 40, false}));
}

TEST(MatrixRule, SparesVectorsAndWhatIsNoLinearMap) {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "transformer.wte.weight", "wpe.weight",
                           "model.layers.0.mlp.experts.gate_up_proj_bias", "model.layers.0.linear_attn.conv1d.weight"})
    EXPECT_EQ(rule(false).matrices(name, {8, 8}, {}).count, 0) << name;
  for (const char* name : {"token_embedder.embedding", "decoder.logits_dense.kernel", "decoder.layers_0.norm.scale",
                           "decoder.layers_0.MoeBlock_0.gate.bias", "decoder.layers_0.attention.sinks"})
    EXPECT_EQ(rule(true).matrices(name, {8, 8}, {}).count, 0) << name;
  EXPECT_EQ(rule(false).matrices("model.norm.weight", {8}, {}).count, 0);
  EXPECT_EQ(rule(true).matrices("decoder.layers_0.MoeBlock_0.gate.kernel", {8, 4}, {}).count, 1);
}

TEST(MatrixRule, ReadsTheRunsOwnExpressions) {
  EXPECT_EQ(rule(false, {"up_proj"}).matrices("layers.0.up_proj.weight", {8, 8}, {}).count, 0);
  EXPECT_EQ(rule(false, {"layers/0/"}).matrices("layers.0.up_proj.weight", {8, 8}, {}).count, 0) << "/ in place of dots";
  EXPECT_EQ(rule(false, {"up_proj"}).matrices("model.embed_tokens.weight", {8, 8}, {}).count, 1) << "instead of the default ones";
  tests::expect_error([] { (void)rule(false, {"(up"}); }, ExitCode::config, {"train.muon_exclude", "\"(up\""});
}

}  // namespace
}  // namespace millrace::runtime
