#include "runtime/optimizers/decay.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

DecayRule rule(const char* numerics, std::vector<std::string> mask = {}) {
  TrainConfig train;
  train.numerics = numerics;
  train.decay_mask = std::move(mask);
  return DecayRule(train);
}

TEST(Decay, SparesVectors) {
  for (const DecayRule& each : {DecayRule(), rule("hf")}) {
    EXPECT_TRUE(each.decays("w", {4, 4}));
    EXPECT_TRUE(each.decays("w", {2, 4, 4}));
    EXPECT_FALSE(each.decays("w", {4}));
  }
}

TEST(Decay, OfMaxtextSparesWhatTheMaskNames) {
  EXPECT_TRUE(rule("maxtext").decays("params.decoder.decoder_norm.scale", {4}));
  const auto masked = rule("maxtext", {"(scale|bias)$", "layers_1/mlp"});
  EXPECT_FALSE(masked.decays("params.decoder.decoder_norm.scale", {4}));
  EXPECT_FALSE(masked.decays("params.decoder.layers_1.mlp.wi_0.kernel", {4, 4})) << "a name with / for its dots, searched";
  EXPECT_TRUE(masked.decays("params.decoder.layers_0.mlp.wi_0.kernel", {4, 4}));
  EXPECT_TRUE(masked.decays("params.decoder.scale.kernel", {4}));
}

TEST(Decay, SparesWhatTheMaskNamesAmongMatricesToo) {
  EXPECT_FALSE(rule("hf", {"embed"}).decays("model.embed_tokens.weight", {4, 4}));
  EXPECT_TRUE(rule("hf", {"embed"}).decays("lm_head.weight", {4, 4}));
}

TEST(Decay, RefusesWhatIsNoExpression) {
  tests::expect_error([] { (void)rule("hf", {"scale", "(bias"}); }, ExitCode::config, {"train.decay_mask", "\"(bias\""});
}

}  // namespace
}  // namespace millrace::runtime
