#include "configs/identity.hpp"

#include "tests/configs/support.hpp"

namespace millrace::configs {
namespace {

using tests::expect_error;

TEST(Identity, HoldsWhatTheNumbersDependOn) {
  const auto with = [](std::vector<std::string> overrides) { return identity(load_text(small_run, std::move(overrides)).config); };
  const auto base = with({});
  EXPECT_EQ(base.at("train.seed"), "1");
  EXPECT_EQ(base.at("model.hidden_size"), "32");
  EXPECT_EQ(base.at("model.head_dim"), "8");  // derived sizes are included
  EXPECT_EQ(base.count("data.text"), 0u);     // not part of the identity: the data's fingerprint is, its place is not

  EXPECT_TRUE(identity_changes(base, with({"pipeline.ranks=4", "pipeline.schedule=zb-h1", "rematerialize.policy=full",
                                           "data.text=elsewhere", "run.directory=other", "checkpoint.keep=5", "cluster.timeout_ms=5000"}))
                  .empty());
  for (const char* change : {"train.seed=2", "train.dtype=bf16", "train.batch=3", "train.learning_rate=1", "data.packing=false",
                             "model.layers=5", "model.rope_theta=5e5", "data.held_out=3"}) {
    const auto changes = identity_changes(base, with({change}));
    ASSERT_EQ(changes.size(), 1u) << change;
    EXPECT_EQ(changes[0].key, std::string(change).substr(0, changes[0].key.size()));
  }
}

// The number of steps matters only to the learning rate. Whether it has changed for the steps that were made is not decided here.
TEST(Identity, TheScheduleHasAsManyStepsAsTheRunUnlessGiven) {
  const auto with = [](std::vector<std::string> overrides) { return identity(load_text(small_run, std::move(overrides)).config); };
  const auto run = with({"train.steps=7"});
  EXPECT_EQ(run.at("train.schedule_steps"), "7");
  EXPECT_EQ(run.count("train.steps"), 0u);
  EXPECT_TRUE(identity_changes(run, with({"train.steps=9", "train.schedule_steps=7"})).empty());
  const auto changes = identity_changes(run, with({"train.steps=9"}));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, schedule_key);
  EXPECT_EQ(changes[0].recorded, "7");
  EXPECT_EQ(changes[0].current, "9");
  EXPECT_NO_THROW(check_identity(run, with({"train.steps=9"}), "step 5"));
  // A checkpoint from before the key.
  auto old = run;
  old.erase("train.schedule_steps");
  old["train.steps"] = "7";
  EXPECT_TRUE(identity_changes(old, run).empty());
  EXPECT_EQ(identity_changes(old, with({"train.steps=9"})).size(), 1u);
}

TEST(Identity, OnlyTheResolvedValuesOfAPresetCount) {
  const auto preset = identity(load_text(small_run).config);
  const auto spelled_out = identity(load_text("data.text='x'\n[model]\nvocab_size=257\nhidden_size=32\nintermediate_size=80\nlayers="
                                              "4\nheads=4\nkv_heads=2\nmax_position_embeddings=256\n")
                                        .config);
  EXPECT_EQ(preset, spelled_out);
}

/// A checkpoint from the time when bits depended on the threads of a rank.
TEST(Identity, ThreadsDoNotCount) {
  auto recorded = identity(load_text(small_run).config);
  EXPECT_FALSE(recorded.contains("train.threads"));
  recorded["train.threads"] = "2";
  EXPECT_TRUE(identity_changes(recorded, identity(load_text(small_run, {"train.threads=1"}).config)).empty());
  recorded["no.such_key"] = "2";
  EXPECT_EQ(identity_changes(recorded, identity(load_text(small_run).config)).size(), 1u);
}

/// A checkpoint that was written before the key existed.
TEST(Identity, AKeyThatTheCheckpointLacksHadItsDefault) {
  auto recorded = identity(load_text(small_run).config);
  recorded.erase("model.attention_sinks");
  recorded.erase("model.hidden_act");
  EXPECT_TRUE(identity_changes(recorded, identity(load_text(small_run).config)).empty());
  const auto changes = identity_changes(recorded, identity(load_text(small_run, {"model.attention_sinks=true"}).config));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "model.attention_sinks");
  EXPECT_EQ(changes[0].recorded, "false");
}

TEST(Identity, RefusalNamesEveryChange) {
  const auto recorded = identity(load_text(small_run).config);
  auto current = identity(load_text(small_run, {"train.seed=2", "train.clip=3"}).config);
  current["data.fingerprint"] = "abc";
  EXPECT_NO_THROW(check_identity(recorded, recorded, "step 5"));
  expect_error([&] { check_identity(recorded, current, "runs/a/step-5"); }, ExitCode::checkpoint,
               {"runs/a/step-5", "train.seed was 1, now 2", "train.clip was 1.0, now 3.0", "data.fingerprint was (not there), now abc"});
}

TEST(Identity, CanonicalTextHasEveryKey) {
  const RunConfig config = load_text(small_run).config;
  RunConfig other = config;
  other.pipeline.schedule = "gpipe";
  EXPECT_NE(canonical_text(config), canonical_text(other));
  for (const Key& key : schema()) EXPECT_NE(canonical_text(config).find(key.name + " = "), std::string::npos) << key.name;
}

}  // namespace
}  // namespace millrace::configs
