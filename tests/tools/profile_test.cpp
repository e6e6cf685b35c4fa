#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/base/check.hpp"
#include "runtime/profile/prediction.hpp"
#include "runtime/profile/profile_check.hpp"
#include "runtime/profile/trace_check.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

using Json = nlohmann::json;

/// The command's output and the folder that it wrote.
struct Profiled {
  CommandResult result;
  Json profile;
  std::string trace;
};

Profiled profiled(const Words& more, const std::string& before) {
  const TemporaryFolder folder;
  const auto out = folder / "profile";
  const Words words{"profile",
                    "configs/runs/tiny.toml",
                    "pipeline.ranks=4",
                    "train.threads=1",
                    "train.microbatches=6",
                    "data.text=docs",
                    "data.held_out=0",
                    "--steps",
                    "3",
                    "--out",
                    out,
                    "run.directory=" + (folder / "run")};
  Profiled run{run_millrace(joined(words, more), before), {}, {}};
  EXPECT_EQ(run.result.code, 0) << run.result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run")) << "a profile writes nothing but its folder";
  if (run.result.code != 0) return run;
  const auto text = read_file(out + "/profile.json");
  for (const auto& problem : runtime::profile_problems(text)) ADD_FAILURE() << problem;
  EXPECT_NE(read_file(out + "/report.html").find("millrace.profile.1"), std::string::npos);
  run.trace = read_file(out + "/trace.json");
  for (const auto& problem : runtime::trace_problems(run.trace)) ADD_FAILURE() << problem;
  run.profile = Json::parse(text, nullptr, false);
  const auto checked = run_millrace({"profile", "--check", out});
  EXPECT_EQ(checked.code, 0) << checked.out;
  return run;
}

std::size_t place_of(const Json& profile, const std::string& cause) {
  const auto& causes = profile.at("causes");
  return static_cast<std::size_t>(std::find(causes.begin(), causes.end(), cause) - causes.begin());
}

/// The time of a rank for a cause, in milliseconds per step.
double spent(const Json& profile, std::size_t rank, const std::string& cause) {
  double sum = 0;
  for (const auto& step : profile.at("steps")) sum += step.at("ranks").at(rank).at(place_of(profile, cause)).get<double>();
  return sum / static_cast<double>(profile.at("steps").size());
}

/// The fraction of a rank's time over all steps.
double share(const Json& profile, std::size_t rank, const std::string& cause) {
  double wall = 0;
  for (const auto& step : profile.at("steps")) wall += step.at("wall").at(rank).get<double>();
  return spent(profile, rank, cause) * static_cast<double>(profile.at("steps").size()) / wall;
}

void expect_whole(const Json& profile, const std::string& schedule, std::size_t processes) {
  ASSERT_TRUE(profile.is_object());
  EXPECT_EQ(profile.at("run").at("schedule"), schedule);
  EXPECT_EQ(profile.at("run").at("kind"), "training");
  EXPECT_EQ(profile.at("clocks").size(), processes);
  for (const auto& clock : profile.at("clocks")) {
    EXPECT_EQ(clock.at("offset_ms"), 0.0) << "one kernel has one clock";
    if (clock.at("process") == 0) continue;
    EXPECT_GE(clock.at("pings").get<int>(), 64);
    // The offset measured by the pings is within the bound that they give.
    EXPECT_LE(std::abs(clock.at("measured_ms").get<double>()), clock.at("round_trip_ms").get<double>() / 2 + 1e-6);
  }
  ASSERT_EQ(profile.at("steps").size(), 3U);
  EXPECT_EQ(profile.at("steps")[0].at("step"), 2);
  EXPECT_EQ(profile.at("loss").size(), 3U);
  ASSERT_EQ(profile.at("ranks").size(), 4U);
  ASSERT_EQ(profile.at("memory").size(), 4U);
  for (const auto& memory : profile.at("memory")) {
    EXPECT_LE(memory.at("peak_bytes").get<double>(), memory.at("planned_bytes").get<double>());
    EXPECT_GE(memory.at("peak_bytes").get<double>(), memory.at("planned_bytes").get<double>() * 0.5);
    EXPECT_GT(memory.at("resident_bytes").get<double>(), 0);
  }
  EXPECT_LE(profile.at("lateness").size(), 10U);
}

/// Each operation ran once per microbatch and step, and together they took the time of the actions, except for the time between
/// them.
void expect_operations(const Json& profile) {
  double operations = 0, actions = 0;
  std::set<std::string> passes;
  for (const auto& operation : profile.at("operations")) {
    EXPECT_EQ(operation.at("count"), 3 * 6) << operation;
    operations += operation.at("ms").get<double>();
    passes.insert(operation.at("pass").get<std::string>());
  }
  for (const auto& step : profile.at("steps"))
    for (const auto& rank : step.at("ranks"))
      for (const char* cause : {"forward", "input_gradient", "weight_gradient", "backward"})
        actions += rank.at(place_of(profile, cause)).get<double>();
  EXPECT_LE(operations, actions);
  EXPECT_GT(operations, 0);
  const bool split = profile.at("run").at("schedule") == "zb-h1";
  EXPECT_EQ(passes, split ? (std::set<std::string>{"F", "I", "W"}) : (std::set<std::string>{"B", "F"}));
}

TEST(Profile, OneProcessTellsOfAllItsRanks) {
  const auto run = profiled({}, "");
  expect_whole(run.profile, "1f1b", 1);
  expect_operations(run.profile);
  expect_parts(run.result.out, {"1f1b, 4 ranks in 1 process", "by cause", "bubble", "imbalance", "planned", "late, by cost per step",
                                "operations: ", "of peak", "model FLOPs utilisation", "/trace.json"});
}

TEST(Profile, ProcessesHandOverTheirRecords) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    for (const int processes : {2, 4}) {
      SCOPED_TRACE(schedule + " on " + std::to_string(processes));
      const auto run = profiled({"pipeline.schedule=" + schedule}, on_processes(processes));
      expect_whole(run.profile, schedule, static_cast<std::size_t>(processes));
      expect_operations(run.profile);
      expect_parts(run.result.out, {"clock     process 1 on ", "by 128 pings, within "});
    }
  }
}

/// Two copies of two ranks, with two of four layers in each.
Json profiled_exchanges(const std::string& before) {
  const TemporaryFolder folder;
  const auto out = folder / "profile";
  const auto result = run_millrace({"profile",
                                    "configs/runs/experts.toml",
                                    "model.hidden_size=32",
                                    "model.heads=4",
                                    "model.kv_heads=2",
                                    "model.head_dim=8",
                                    "model.intermediate_size=24",
                                    "model.experts=6",
                                    "train.batch=2",
                                    "train.sequence=32",
                                    "pipeline.ranks=2",
                                    "mesh.expert=2",
                                    "train.accumulators=2",
                                    "train.threads=1",
                                    "train.microbatches=4",
                                    "data.text=docs",
                                    "data.held_out=0",
                                    "evaluate.every=0",
                                    "--steps",
                                    "3",
                                    "--out",
                                    out},
                                   before);
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return {};
  expect_parts(result.out, {"exchanges: ", " MiB sent per step, ", "  layers."});
  const auto trace = read_file(out + "/trace.json");
  for (const auto& problem : runtime::trace_problems(trace)) ADD_FAILURE() << problem;
  EXPECT_NE(trace.find("\"layers.0.mlp.dispatch\""), std::string::npos);
  return Json::parse(read_file(out + "/profile.json"));
}

TEST(Profile, ExchangesAreMeasuredByLayer) {
  Json bytes;
  for (const int processes : {1, 2}) {
    SCOPED_TRACE(processes);
    const Json profile = profiled_exchanges(processes == 1 ? "" : on_processes(processes));
    ASSERT_TRUE(profile.contains("exchanges"));
    std::map<std::string, Json> found;
    double exposed = 0, waited = 0;
    for (const Json& exchange : profile.at("exchanges")) {
      found[exchange.at("name").get<std::string>() + " " + exchange.at("pass").get<std::string>()] = exchange;
      exposed += exchange.at("exposed_ms").get<double>();
      EXPECT_GE(exchange.at("under_way_ms").get<double>(), exchange.at("late_ms").get<double>());
      EXPECT_GE(exchange.at("late_ms").get<double>(), 0);
      EXPECT_EQ(exchange.at("count"), 3 * 4) << "steps, and a copy's microbatches in both copies: " << exchange;
    }
    for (const int layer : {0, 1, 2, 3}) {
      const std::string mlp = "layers." + std::to_string(layer) + ".mlp.";
      const Json dispatched = found[mlp + "dispatch F"];
      ASSERT_TRUE(dispatched.is_object()) << layer;
      EXPECT_EQ(dispatched["layer"], layer);
      EXPECT_GT(dispatched["bytes"], 0);
      for (const char* back : {"combine F", "combine.dx B", "dispatch.dx B"})
        EXPECT_EQ(found[mlp + back]["bytes"], dispatched["bytes"]) << back;
    }
    for (std::size_t rank = 0; rank < 4; ++rank) waited += 3 * spent(profile, rank, "exchange");
    EXPECT_NEAR(exposed, waited, 1e-3 + 0.01 * waited) << "the same waits by layer and by cause";
    Json now;
    for (const auto& [name, exchange] : found) now[name] = exchange["bytes"];
    if (processes == 1) bytes = now;
    EXPECT_EQ(now, bytes) << "the same rows, whatever carries them";
  }
}

TEST(Profile, AStageSlowedOnPurposeIsNamedFirst) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const auto plain = profiled({"pipeline.schedule=" + schedule}, on_processes(2));
    const auto slowed = profiled({"pipeline.schedule=" + schedule}, "MILLRACE_FAULT=point=stage1.forward:delay=50 " + on_processes(2));
    ASSERT_FALSE(plain.profile.is_null() || slowed.profile.is_null());
    const auto& first = slowed.profile.at("lateness").at(0);
    EXPECT_EQ(first.at("stage"), 1) << first;
    EXPECT_EQ(first.at("rank"), 1) << first;
    EXPECT_TRUE(first.at("what").get<std::string>().starts_with("stage 1 forward takes ")) << first;
    EXPECT_GT(share(slowed.profile, 1, "forward"), share(plain.profile, 1, "forward") + 0.2);
    // Compared as absolute time: on a busy machine the fractions of a step without any work are arbitrary.
    for (const std::size_t rank : {0, 2, 3}) {
      EXPECT_GT(spent(slowed.profile, rank, "imbalance"), spent(plain.profile, rank, "imbalance") + 50) << rank;
      EXPECT_GT(spent(slowed.profile, rank, "imbalance"), spent(slowed.profile, 1, "imbalance") + 50) << rank;
    }
  }
}

TEST(Profile, TellsOfThePlansPromise) {
  const TemporaryFolder folder;
  const auto plan = folder.write("plan.toml", R"([pipeline]
costs = ["embedding,0.1,0.1,0.1", "layer,1,1,1", "head,1,1,1"]
)");
  const auto run = profiled({plan, "pipeline.schedule=zb-h1"}, "");
  expect_parts(run.result.out, {"pipeline.costs had promised "});
  EXPECT_GT(run.profile.at("prediction").at("promised_duration").get<double>(), 0);
}

TEST(Profile, ARehearsalHasTheSameFolder) {
  const TemporaryFolder folder;
  const auto out = folder / "profile";
  const auto schedule = runtime::one_f_one_b(4, 4);
  runtime::Costs costs;
  costs.stages.assign(4, {5, 5, 5, 10});
  costs.noise.slowdown = {1, 1, 4, 1};
  const auto simulation = runtime::simulate(schedule, costs);
  const double wanted = simulation.bubble() * simulation.makespan;
  for (const int processes : {1, 2}) {
    const auto result = run_millrace(
        {"rehearse", "1f1b", "--ranks", "4", "--microbatches", "4", "--costs", "5,5,5", "--steps", "3", "--slow", "2:4", "--profile", out},
        processes == 1 ? "" : on_processes(processes));
    ASSERT_EQ(result.code, 0) << result.err;
    const auto text = read_file(out + "/profile.json");
    for (const auto& problem : runtime::profile_problems(text)) ADD_FAILURE() << problem;
    for (const auto& problem : runtime::trace_problems(read_file(out + "/trace.json"))) ADD_FAILURE() << problem;
    const auto profile = Json::parse(text);
    EXPECT_EQ(profile.at("run").at("kind"), "rehearsal");
    EXPECT_EQ(profile.at("run").at("processes"), processes);
    EXPECT_TRUE(profile.at("operations").empty());
    EXPECT_TRUE(profile.at("memory").empty());
    EXPECT_EQ(profile.at("lateness")[0].at("stage"), 2) << profile.at("lateness");
    EXPECT_NEAR(profile.at("prediction").at("bubble").get<double>(), wanted, 1e-5);
  }
}

TEST(Profile, CountsItsOwnStepsAndSaysThatItReplacesAProfile) {
  const TemporaryFolder folder;
  const auto profile = [&] {
    return run_millrace({"profile", "configs/runs/tiny.toml", "train.threads=1", "data.text=docs", "data.held_out=0", "--steps", "2",
                         "--out", folder / "profile"});
  };
  const auto first = profile();
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err.find("an earlier profile"), std::string::npos) << first.err;
  expect_parts(first.out, {"step 1/3", "step 2/3", "step 3/3"});
  expect_parts(profile().err, {(folder / "profile") + " has an earlier profile, which is replaced; --out FOLDER keeps both"});
}

TEST(Profile, BeginsWithTheStateOfAnotherRun) {
  const TemporaryFolder folder;
  const Words run{"configs/runs/tiny.toml", "train.threads=1", "data.text=docs", "data.held_out=0", "evaluate.every=0", "sample.tokens=0"};
  const auto trained = run_millrace(joined(joined({"train"}, run), {"train.steps=30", "run.directory=" + (folder / "run")}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto first_loss = [&](const Words& more) {
    const auto result = run_millrace(joined(joined({"profile"}, run), joined(more, {"--steps", "1", "--out", folder / "profile"})));
    EXPECT_EQ(result.code, 0) << result.err;
    const auto loss = result.out.find("| loss ");
    return loss == std::string::npos ? 0.0 : std::strtod(result.out.c_str() + loss + 7, nullptr);
  };
  const auto continued = first_loss({"train.start_from=" + (folder / "run")});
  EXPECT_GT(continued, 0);
  EXPECT_LT(continued, first_loss({}) - 0.1) << "a trained model has a lower loss";
  expect_failure(run_millrace(joined(joined({"profile"}, run), {"train.start_from=" + (folder / "none"), "--out", folder / "profile"})),
                 ExitCode::checkpoint, {"train.start_from = " + (folder / "none")});
}

TEST(Profile, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  const auto steps = [&](const char* count) {
    return run_millrace({"profile", "configs/runs/tiny.toml", "--steps", count, "--out", folder / "profile"});
  };
  expect_failure(steps("0"), ExitCode::usage, {"--steps 0"});
  expect_failure(steps("9999"), ExitCode::usage, {"9999 steps", "steps at most"});
  expect_failure(run_millrace({"profile", "--check", "/no/such/folder"}), ExitCode::usage, {"/no/such/folder has no profile.json"});
  const auto nowhere = run_millrace({"profile", "configs/runs/tiny.toml", "data.text=docs", "data.held_out=0", "--out", "/proc/nowhere"});
  expect_failure(nowhere, ExitCode::storage, {"/proc/nowhere"});
  EXPECT_EQ(nowhere.out, "") << "printed before the first step";
  expect_failure(run_millrace({"profile", "configs/runs/tiny.toml", "--check", "x"}), ExitCode::usage, {"--check with"});
}

TEST(Profile, TheCheckFindsDamage) {
  const TemporaryFolder folder;
  std::ofstream(folder / "profile.json")
      << R"({"format":"millrace.profile.1","causes":["forward"],"steps":[{"step":1,"ranks":[[1.0]],"wall":[2.0]}]})";
  std::ofstream(folder / "trace.json") << R"({"traceEvents":[{"ph":"X","pid":0,"tid":0,"ts":1,"dur":-1,"name":"a"}]})";
  const auto result = run_millrace({"profile", "--check", folder.path().string()});
  EXPECT_EQ(result.code, 1);
  expect_parts(result.out,
               {"profile.json: step 1 on rank 0: the causes add up to 1.000 ms of 2.000 ms", "trace.json: event 0: a lasts -1000 ns"});
}

}  // namespace
}  // namespace millrace::tests
