#include "layers/formats/scanned_layers.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace millrace::layers {
namespace {

TEST(ScannedLayers, AreFoundByTheNumberInTheirName) {
  const auto found = scanned_tensor("decoder.moe_layers_12.MoeBlock_0.wi_0");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, "decoder.moe_layers.MoeBlock_0.wi_0");
  EXPECT_EQ(found->layer, 12U);
  EXPECT_EQ(scanned_tensor("decoder.layers_0.mlp.wi_0.kernel")->name, "decoder.layers.mlp.wi_0.kernel");
  for (const char* other : {"decoder.decoder_norm.scale", "token_embedder.embedding", "decoder.layers_x.mlp", "decoder.layers_3",
                            "mtp_block.mtp_layer_1.layers_0.kernel", "model.layers.0.mlp.up_proj.weight"})
    EXPECT_FALSE(scanned_tensor(other).has_value()) << other;
}

// The layer is the second axis: of [2, 3, 2] the layers are the columns of pairs.
TEST(ScannedLayers, AreSlicesOfTheSecondAxis) {
  std::vector<float> all(12);
  std::iota(all.begin(), all.end(), 0.0F);
  EXPECT_EQ(scanned_shape({2, 2}, 3), (kernels::Shape{2, 3, 2}));
  EXPECT_EQ(scanned_layer(all, {2, 2}, 3, 0), (std::vector<float>{0, 1, 6, 7}));
  EXPECT_EQ(scanned_layer(all, {2, 2}, 3, 2), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_EQ(scanned_shape({4}, 3), (kernels::Shape{4, 3}));
  EXPECT_EQ(scanned_layer(all, {4}, 3, 1), (std::vector<float>{1, 4, 7, 10})) << "a scale of every layer";
}

}  // namespace
}  // namespace millrace::layers
