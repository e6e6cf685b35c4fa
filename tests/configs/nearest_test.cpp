#include "kernels/base/nearest.hpp"

#include <gtest/gtest.h>

#include "configs/schema.hpp"

namespace millrace::configs {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("setps", "steps"), 1u);  // a swap counts as one error
  EXPECT_EQ(edit_distance("stpes", "steps"), 1u);
  EXPECT_EQ(edit_distance("tseps", "steps"), 1u);  // at the begin, …
  EXPECT_EQ(edit_distance("stesp", "steps"), 1u);  // … and at the end
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("ba", "aab"), 2u);
  EXPECT_EQ(edit_distance("a", "b"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("sequence", "sequences"), 1u);
}

TEST(Nearest, FindsTheKeyThatWasMeant) {
  struct Slip {
    const char* wrong;
    const char* meant;
  };
  for (const Slip& slip : {Slip{"train.stpes", "train.steps"},
                           {"trian.steps", "train.steps"},
                           {"train.learning-rate", "train.learning_rate"},
                           {"steps", "train.steps"},
                           {"model.microbatches", "train.microbatches"},
                           {"pipeline.shedule", "pipeline.schedule"},
                           {"checkpoints.every", "checkpoint.every"},
                           {"devise", "device"},
                           {"train.lr", "train.learning_rate"},
                           {"lr", "train.learning_rate"},
                           {"train.wd", "train.weight_decay"},
                           {"rematerialise.policy", "rematerialize.policy"}}) {
    EXPECT_EQ(nearest_name(slip.wrong, key_names()), slip.meant) << slip.wrong;
  }
}

TEST(Nearest, DoesNotGuess) {
  EXPECT_EQ(nearest_name("optimizer.momentum_dampening", key_names()), "");
  EXPECT_EQ(nearest_name("xyz", key_names()), "");
  EXPECT_EQ(did_you_mean("xyz", key_names()), "");
  EXPECT_EQ(did_you_mean("train.step", key_names()), "; did you mean train.steps?");
}

}  // namespace
}  // namespace millrace::configs
