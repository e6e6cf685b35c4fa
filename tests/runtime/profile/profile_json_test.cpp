#include "runtime/profile/profile_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/profile/analyze.hpp"
#include "runtime/profile/profile_check.hpp"
#include "tests/runtime/profile/made_up.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;

Json written(int steps = 3) {
  const Schedule schedule = one_f_one_b(4, 8);
  auto costs = even(schedule);
  costs.stages[3].backward = 5;
  auto measured = made_up(schedule, costs, steps);
  measured.run.model = "llama";
  measured.run.flops_per_step = 1e6;
  measured.machine.job_peak_flops = 1e9;
  measured.operations.push_back({StageId(1), 2, "layers.2.mlp.up_proj", "linear", 'B', 40, 5'000'000, 1e9, 1e6});
  return Json::parse(profile_json(analyze(std::move(measured))));
}

TEST(ProfileJson, SaysWhatWasMeasured) {
  const Json json = written();
  EXPECT_EQ(json.at("format"), "millrace.profile.1");
  EXPECT_EQ(json.at("run").at("schedule"), "1f1b");
  EXPECT_EQ(json.at("run").at("ranks"), 4);
  EXPECT_EQ(json.at("causes").size(), cause_count);
  ASSERT_EQ(json.at("steps").size(), 3U);
  EXPECT_EQ(json.at("steps")[0].at("step"), 2);  // after one warm-up step; steps are counted from 1
  EXPECT_EQ(json.at("steps")[0].at("begin"), 0.0);
  EXPECT_EQ(json.at("loss")[2], Json({4, 2.5}));
  EXPECT_GT(json.at("steps")[1].at("mfu").get<double>(), 0);
  EXPECT_EQ(json.at("operations")[0].at("pass"), "B");
  EXPECT_EQ(json.at("operations")[0].at("ms"), 5.0);
  EXPECT_TRUE(json.at("machine").at("peak_flops").is_null());
  EXPECT_TRUE(profile_problems(json.dump()).empty());
}

TEST(ProfileJson, TellsOfGpusWhereThereAreSome) {
  EXPECT_FALSE(written().contains("device"));
  const Schedule schedule = one_f_one_b(2, 4);
  auto measured = made_up(schedule, even(schedule), 3);
  measured.memory.resize(2);
  for (const int stage : {0, 1}) measured.memory[static_cast<std::size_t>(stage)].stages.emplace_back().stage = StageId(stage);
  measured.memory[1].on_device = 3;
  measured.memory[1].device_planned = 800;
  measured.memory[1].device = 1000;
  measured.device_actions.push_back({StageId(1), 'B', 12, 5'000'000, 700'000});
  measured.launch_gaps = {0, 250'000};
  const Json json = Json::parse(profile_json(analyze(std::move(measured))));
  EXPECT_FALSE(json.at("memory")[0].contains("device")) << "on a CPU";
  EXPECT_EQ(json.at("memory")[1].at("device"), 3);
  EXPECT_EQ(json.at("memory")[1].at("device_planned_bytes"), 800);
  EXPECT_EQ(json.at("memory")[1].at("device_bytes"), 1000);
  EXPECT_EQ(json.at("device").at("actions"), Json::parse(R"([{"stage":1,"pass":"B","count":12,"device_ms":5.0,"host_ms":0.7}])"));
  EXPECT_EQ(json.at("device").at("launch_gaps_ms"), Json({0.0, 0.25}));
  EXPECT_TRUE(profile_problems(json.dump()).empty());
}

TEST(ProfileJson, TheTimelineHoldsEveryActionTwice) {
  const Json timeline = written().at("timeline");
  for (const char* which : {"measured", "planned"}) {
    ASSERT_EQ(timeline.at(which).size(), 4U);
    for (const Json& rank : timeline.at(which)) {
      std::size_t actions = 0;
      double end = 0;
      for (const Json& slice : rank) {
        if (slice[0] == "O") continue;
        ++actions;
        EXPECT_GE(slice[3].get<double>(), end - 1e-6) << slice;
        end = slice[4].get<double>();
      }
      EXPECT_EQ(actions, 16U);
    }
  }
  EXPECT_EQ(timeline.at("sends").size(), 2U * 3 * 8);
  // These records come from a simulation, so the step predicted from their means equals the measured one.
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (std::size_t i = 0; i < 16; ++i)
      EXPECT_NEAR(timeline.at("planned")[rank][i][3].get<double>(), timeline.at("measured")[rank][i][3].get<double>(), 1e-3);
  const Json& wait = timeline.at("waits")[1][0];
  EXPECT_EQ(wait[0], "activation");
  EXPECT_EQ(wait[4], wait[6]);  // the boundary arrives when it is produced
}

TEST(ProfileJson, ThePredictionOfItsOwnRecordsIsRight) {
  const Json prediction = written().at("prediction");
  EXPECT_NEAR(prediction.at("bubble").get<double>(), prediction.at("measured_bubble").get<double>(), 1e-3);
  EXPECT_NEAR(prediction.at("duration").get<double>() + 0.5, prediction.at("measured_duration").get<double>(), 1e-3);
}

TEST(ProfileCheck, FindsWhatDoesNotAddUp) {
  Json json = written();
  auto& part = json.at("steps")[1].at("ranks")[2][0];
  part = part.get<double>() + 5;
  auto problems = profile_problems(json.dump());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems.front().starts_with("step 3 on rank 2: the causes add up to")) << problems.front();
  part = -1;
  EXPECT_EQ(profile_problems(json.dump()).front(), "step 3 on rank 2: forward is -1 ms");
  json["format"] = "millrace.profile.7";
  EXPECT_EQ(profile_problems(json.dump()).front(), "format millrace.profile.7, expected millrace.profile.1");
  EXPECT_EQ(profile_problems("{").front(), "not JSON");
  EXPECT_FALSE(profile_problems("{\"format\":\"millrace.profile.1\"}").empty());
}

}  // namespace
}  // namespace millrace::runtime
