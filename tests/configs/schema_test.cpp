#include "configs/schema.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "kernels/base/route_options.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::configs {
namespace {

TEST(Schema, HasTheKeysThatScriptsRelyOn) {
  for (const char* name : {"run.directory",
                           "model.preset",
                           "model.from",
                           "model.numerics",
                           "data.text",
                           "data.tokens",
                           "train.steps",
                           "train.dtype",
                           "train.batch",
                           "train.sequence",
                           "train.microbatches",
                           "train.seed",
                           "train.threads",
                           "train.accumulators",
                           "train.learning_rate",
                           "train.clip",
                           "train.weight_decay",
                           "pipeline.ranks",
                           "pipeline.chunks",
                           "pipeline.schedule",
                           "pipeline.layout",
                           "pipeline.plan",
                           "checkpoint.every",
                           "checkpoint.keep",
                           "rematerialize.policy",
                           "device"}) {
    EXPECT_NE(find_key(name), nullptr) << name;
  }
  EXPECT_EQ(find_key("train"), nullptr);
  // The number of keys for families and the mesh, with what trains their indexers and modules, for optimizers and for recipes grows with
  // these; all other sections stay small.
  const auto grows = [](const Key& key) {
    const bool is_of_recipe = std::ranges::any_of(
        std::vector<std::string>{"train.skip_", "train.ramp_", "train.qk_clip", "train.trainable", "train.group", "train.average_decay",
                                 "evaluate.average", "train.loss", "train.accumulation_steps", "train.leaf", "train.offload"},
        [&](const std::string& prefix) { return key.name.starts_with(prefix); });
    return is_of_recipe || section_of(key.name) == "model" || section_of(key.name) == "mesh" || section_of(key.name) == "experts" ||
           key.name.starts_with("train.indexer_") || key.name.starts_with("train.mtp_") ||
           std::ranges::any_of(runtime::optimizer_choices, [&](const auto& choice) { return choice.reads(key.name); });
  };
  EXPECT_LE(std::ranges::count_if(schema(), [&](const Key& key) { return !grows(key); }), 72);
}

TEST(Schema, HasRoomForAsManyExpertsAsRoutersHave) {
  for (const char* key : {"model.experts", "model.experts_per_token"}) EXPECT_EQ(find_key(key)->most, kernels::max_experts);
}

TEST(Schema, NamesAreUniqueInFilesAndEnvironment) {
  std::set<std::string> names, variables;
  for (const Key& key : schema()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_TRUE(variables.insert(environment_name(key)).second) << key.name;
  }
  EXPECT_EQ(environment_name(*find_key("train.learning_rate")), "MILLRACE_TRAIN_LEARNING_RATE");
}

TEST(Schema, SectionsStandTogether) {
  // config show opens each table once, and keys without a table come first.
  std::set<std::string_view> closed;
  std::string_view open;
  for (const Key& key : schema()) {
    const auto section = section_of(key.name);
    if (section == open) continue;
    EXPECT_TRUE(closed.insert(section).second) << key.name;
    EXPECT_FALSE(section.empty()) << key.name;
    open = section;
  }
}

TEST(Schema, EveryKeyIsDocumentedAndInRange) {
  const std::set<std::string> not_given = {"model.vocab_size", "model.hidden_size", "model.intermediate_size", "model.layers",
                                           "model.heads",      "model.kv_heads",    "model.head_dim"};
  const RunConfig built_in;
  for (const Key& key : schema()) {
    EXPECT_GE(key.doc.size(), 10u) << key.name;
    EXPECT_EQ(key.doc.back(), '.') << key.name;
    EXPECT_FALSE(expected_text(key).empty()) << key.name;
    EXPECT_EQ(in_range(key, key.fetch(built_in)), !not_given.contains(key.name)) << key.name;
  }
}

TEST(Schema, StoresWhatItFetches) {
  for (const Key& key : schema()) {
    RunConfig config;
    Value other;
    switch (key.kind) {
      case Kind::boolean:
        other = !std::get<bool>(key.fetch(config));
        break;
      case Kind::integer:
        other = std::get<std::int64_t>(key.fetch(config)) + 1;
        break;
      case Kind::number:
        other = std::get<double>(key.fetch(config)) + 0.5;
        break;
      case Kind::text:
        other = key.choices.empty() ? std::string("other") : key.choices.back();
        break;
      case Kind::list:
        other = key.choices.empty() ? std::vector<std::string>{"one", "two"} : std::vector<std::string>(2, key.choices.back());
        break;
      case Kind::numbers:
        other = std::vector<double>{1.5, 2};
        break;
      case Kind::integers:
        other = std::vector<std::int64_t>{1, 2};
        break;
    }
    key.store(config, other);
    EXPECT_EQ(key.fetch(config), other) << key.name;
    // No other key is bound to the same member.
    const RunConfig built_in;
    for (const Key& neighbour : schema()) {
      if (neighbour.name == key.name) continue;
      EXPECT_EQ(neighbour.fetch(config), neighbour.fetch(built_in)) << key.name << " changes " << neighbour.name;
    }
  }
}

TEST(Schema, RangesHoldAtTheirEnds) {
  const Key& steps = *find_key("train.steps");
  EXPECT_TRUE(in_range(steps, std::int64_t{1}));
  EXPECT_FALSE(in_range(steps, std::int64_t{0}));
  EXPECT_TRUE(in_range(steps, std::int64_t{1000000000}));
  EXPECT_FALSE(in_range(steps, std::int64_t{1000000001}));
  const Key& rate = *find_key("train.learning_rate");
  EXPECT_FALSE(in_range(rate, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(in_range(rate, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(in_range(rate, -1e-9));
}

}  // namespace
}  // namespace millrace::configs
