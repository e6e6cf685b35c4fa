#include "runtime/profile/layout_cost.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/profile/analyze.hpp"
#include "runtime/profile/profile_json.hpp"
#include "tests/runtime/profile/made_up.hpp"

namespace millrace::runtime {
namespace {

constexpr double layer = 2, head = 3;  // ms of F; B takes twice as long

/// A run of six layers on four ranks whose head costs one and a half layers, with the operations of each stage.
Measured six_layers(const std::vector<int>& counts, const std::string& layout) {
  const Schedule schedule = one_f_one_b(4, 8);
  Costs costs;
  std::vector<OperationTime> operations;
  int next = 0;
  for (int stage = 0; stage < 4; ++stage) {
    double forward = 0;
    const auto add = [&](int of_layer, double time) {
      forward += time;
      for (const char pass : {'F', 'B'})
        // Operations take less than the action that they are part of: the report scales them.
        operations.push_back(
            {StageId(stage), of_layer, "x", "linear", pass, 16, nanoseconds(0.9 * 16 * time * (pass == 'F' ? 1 : 2)), 0, 0});
    };
    for (int count = 0; count < counts[static_cast<std::size_t>(stage)]; ++count) add(next++, layer);
    if (stage == 3) add(-1, head);
    costs.stages.push_back({forward, 0, 0, 2 * forward});
  }
  auto measured = made_up(schedule, costs);
  measured.layers = counts;
  measured.run.layout = layout;
  measured.operations = operations;
  return measured;
}

std::string text_of(const Profile& profile) {
  const auto lines = layout_cost_text(profile);
  return std::accumulate(lines.begin(), lines.end(), std::string(), [](const auto& all, const auto& line) { return all + line + "\n"; });
}

TEST(LayoutCost, NamesTheHeavyStagesAndTheBetterLayout) {
  const auto profile = analyze(six_layers({1, 1, 1, 3}, "E t | t | t | t*3 H"));
  ASSERT_TRUE(profile.layout);
  const auto& layout = *profile.layout;
  ASSERT_EQ(layout.heavy.size(), 1U);
  EXPECT_EQ(layout.heavy[0].rank, RankId(3));
  EXPECT_NEAR(layout.heavy[0].relative, 9 / 3.75, 1e-9);  // F of the ranks: 2, 2, 2 and 9 ms
  Costs even = profile.prediction.costs;
  even.stages.assign(4, {3.75, 0, 0, 7.5});
  EXPECT_NEAR(layout.cost, profile.prediction.simulation.makespan - simulate(profile.measured.schedule, even).makespan, 1e-6);
  ASSERT_TRUE(layout.better);
  EXPECT_EQ(layout.better->layout, "E t*2 | t*2 | t*2 | H");
  EXPECT_NEAR(layout.better->now, profile.prediction.simulation.makespan, 1e-3);
  EXPECT_LT(layout.better->step, 0.6 * layout.better->now);
  const auto text = text_of(profile);
  EXPECT_NE(text.find("unequal stages cost "), std::string::npos) << text;
  EXPECT_NE(text.find("% of the step: stage 3 (t*3 H) on rank 3 takes 2.40 x the mean"), std::string::npos) << text;
  EXPECT_NE(text.find("E t*2 | t*2 | t*2 | H would be "), std::string::npos) << text;
  EXPECT_NE(text.find("`millrace plan RUN.toml --measure`"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(profile_json(profile)).at("layout_cost");
  EXPECT_EQ(json.at("better").at("layout"), layout.better->layout);
  EXPECT_EQ(json.at("ranks")[0].at("stages"), nlohmann::json({3}));
  EXPECT_EQ(json.at("text").size(), 3U);
}

TEST(LayoutCost, AdvisesNothingByTimesInDoubt) {
  auto measured = six_layers({1, 1, 1, 3}, "E t | t | t | t*3 H");
  measured.doubt = "other programs used 1.9 of the 2 cores meanwhile";
  const auto text = text_of(analyze(measured));
  EXPECT_NE(text.find("these times are in doubt: other programs used 1.9 of the 2 cores meanwhile. Another run may name other stages"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("would be"), std::string::npos) << text;
}

TEST(LayoutCost, SaysSoIfNoLayoutIsFaster) {
  const auto profile = analyze(six_layers({2, 2, 2, 0}, "E t*2 | t*2 | t*2 | H"));
  ASSERT_TRUE(profile.layout) << "the head is lighter than two layers";
  EXPECT_TRUE(profile.layout->searched);
  EXPECT_FALSE(profile.layout->better);
  EXPECT_EQ(profile.layout->heavy.size(), 3U);
  EXPECT_NE(text_of(profile).find("no other layout of whole layers is noticeably faster in 1f1b"), std::string::npos) << text_of(profile);
}

TEST(LayoutCost, SearchesNothingWithoutOperations) {
  auto measured = six_layers({1, 1, 1, 3}, "E t | t | t | t*3 H");
  measured.operations.clear();
  const auto profile = analyze(measured);
  ASSERT_TRUE(profile.layout);
  EXPECT_FALSE(profile.layout->searched);
  EXPECT_NE(text_of(profile).find("searches layouts and other schedules"), std::string::npos) << text_of(profile);
}

TEST(LayoutCost, CountsModulesAsTheLastLayers) {
  auto measured = six_layers({1, 1, 1, 3}, "E t | t | t | t M*2 H");
  measured.modules = 2;
  const auto profile = analyze(measured);
  ASSERT_TRUE(profile.layout && profile.layout->better);
  EXPECT_EQ(profile.layout->better->layout, "E t*2 | t*2 | M*2 | H");
}

TEST(LayoutCost, IsSilentIfStagesAreEqual) {
  const Schedule schedule = one_f_one_b(4, 8);
  auto profile = analyze(made_up(schedule, even(schedule)));
  EXPECT_FALSE(profile.layout);
  EXPECT_TRUE(layout_cost_text(profile).empty());
  auto rehearsal = six_layers({1, 1, 1, 3}, "");
  rehearsal.run.kind = "rehearsal";
  EXPECT_FALSE(analyze(rehearsal).layout);
}

}  // namespace
}  // namespace millrace::runtime
