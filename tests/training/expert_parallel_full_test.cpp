#include <gtest/gtest.h>

#include <map>

#include "tests/training/expert_models.hpp"
#include "tests/training/small_run.hpp"

// Every family of mixtures in every kind of layout: the numbers of one rank that has all experts.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

struct Layout {
  const char* name;
  int processes;
  Words words;
  int expert_sums = 1;  // train.expert_accumulators, which is part of the run's identity
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {"two_owners", 1, {"mesh.expert=2"}},
      {"four_owners", 1, {"mesh.expert=4"}},
      {"two_processes", 2, {"mesh.expert=2"}},
      {"four_processes", 4, {"mesh.expert=4", "rematerialize.policy=full"}},
      {"two_groups", 2, {"mesh.data=4", "mesh.expert=2"}, 2},
      {"pipeline", 2, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=1f1b"}},
      {"woven_pipeline", 4, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=1f1b", "pipeline.weave=neighbours"}},
      {"zb_v", 1, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}},
      {"woven_zb_v",
       2,
       {"mesh.expert=4", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v", "pipeline.weave=neighbours",
        "rematerialize.policy=minimal"}},
      {"dualpipe", 1, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe"}, 2},
      {"woven_dualpipe", 2, {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe", "pipeline.weave=neighbours"}, 2},
      {"rounds", 1, {"mesh.expert=4", "experts.capacity=0.25"}},
      {"woven_rounds",
       2,
       {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=1f1b", "pipeline.weave=neighbours", "experts.capacity=0.5",
        "rematerialize.policy=full"}},
      {"rounds_of_dualpipe",
       2,
       {"mesh.expert=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe", "pipeline.weave=neighbours", "experts.capacity=0.25"},
       2},
      {"apart",
       2,
       {"mesh.expert=2", "pipeline.ranks=4", "pipeline.schedule=zb-h1", "pipeline.layout=E t a | f a | f a | f H",
        "rematerialize.policy=full"}},
      {"woven_apart",
       2,
       {"mesh.expert=2", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=dualpipe-v", "pipeline.weave=neighbours",
        "pipeline.layout=E a | f t a | f a | f H"}},
      {"batch_split", 1, {"mesh.expert=2", "pipeline.schedule=gpipe", "pipeline.weave=neighbours"}},
  };
  return all;
}

Words with_sums(const Words& layout, int expert_sums) {
  Words words = layout;
  words.insert(words.end(), {"train.steps=20", "train.expert_accumulators=" + std::to_string(expert_sums)});
  return words;
}

/// The run on one rank, made once.
const Outcome& alone(const std::string& model, int expert_sums) {
  static std::map<std::pair<std::string, int>, Outcome> runs;
  const auto [place, fresh] = runs.try_emplace({model, expert_sums});
  if (fresh) place->second = run_small(1, expert_run(model, with_sums({}, expert_sums)));
  return place->second;
}

class EveryExpertLayout : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

TEST_P(EveryExpertLayout, HasTheNumbersOfOneRank) {
  const auto& [model, index] = GetParam();
  const Layout& layout = layouts()[index];
  const Outcome& expected = alone(model, layout.expert_sums);
  const Outcome found = run_small(layout.processes, expert_run(model, with_sums(layout.words, layout.expert_sums)));
  ASSERT_EQ(expected.code, 0) << expected.said;
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.lines, expected.lines);
  EXPECT_EQ(found.hash, expected.hash);
}

INSTANTIATE_TEST_SUITE_P(All, EveryExpertLayout,
                         ::testing::Combine(::testing::ValuesIn(expert_models()), ::testing::Range<std::size_t>(0, layouts().size())),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + layouts()[std::get<1>(one.param)].name; });

}  // namespace
}  // namespace millrace::tests
