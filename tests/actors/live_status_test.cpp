#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "actors/rank/progress_slot.hpp"
#include "actors/telemetry/live_history.hpp"
#include "actors/telemetry/live_view.hpp"
#include "actors/telemetry/step_fields.hpp"

namespace millrace::actors {
namespace {

StepRecord record(std::int64_t step, double loss, int ranks = 2) {
  StepRecord record;
  record.step = step;
  record.steps = 10'000;
  record.loss = loss;
  record.tokens = 100;
  record.seconds = 0.5;
  for (int rank = 0; rank < ranks; ++rank) record.ranks.push_back({500, 300, 100, 50, 10, 20});
  return record;
}

/// The data of /metrics and /status, for this number of ranks.
LiveView made_up(int ranks) {
  LiveHistory history;
  for (int step = 11; step <= 20; ++step) history.add(record(step, 3.0 / step, ranks));
  LiveView view;
  view.run = {"runs/\"a\\b\"\n", "llama", "fp32", "1f1b", "E t | H", 2, ranks, 10, 10'000, 8, 1e9};
  view.totals = history.read();
  for (int rank = 0; rank < ranks; ++rank) {
    LiveRank live;
    live.process = rank / 2;
    live.known = rank != 1;
    if (live.known) {
      live.progress = {rank, rank, 3, 0, 21, {}, {1, 4}, {2, 3}};
      live.progress.set_action("forward");
      live.seconds = 0.25;
    }
    view.ranks.push_back(live);
  }
  return view;
}

// -- history ------------------------------------------------------------------------------------------------------------------------------

TEST(LiveHistory, AddsUp) {
  const auto totals = made_up(2).totals;
  EXPECT_EQ(totals.steps, 10);
  EXPECT_EQ(totals.tokens, 1000);
  EXPECT_EQ(totals.seconds, 5.0);
  EXPECT_EQ(totals.smooth_seconds, 0.5);
  EXPECT_EQ(totals.last->step, 20);
  ASSERT_EQ(totals.ranks.size(), 2U);
  EXPECT_EQ(totals.ranks[1].wall, 5000);
  EXPECT_EQ(totals.ranks[1].exchange, 100);
  EXPECT_EQ(totals.ranks[1].data, 200);
  ASSERT_EQ(totals.losses.points().size(), 10U);
  EXPECT_EQ(totals.losses.points()[0].step, 11);
}

TEST(LiveHistory, KeepsTheWholeCurveInFewPoints) {
  LiveHistory history;
  constexpr int steps = 100'000;
  for (int step = 1; step <= steps; ++step) history.add(record(step, step));
  const auto totals = history.read();
  const auto& losses = totals.losses.points();
  EXPECT_LT(losses.size(), LiveHistory::most_points);
  EXPECT_GE(losses.size(), LiveHistory::most_points / 2 - 1);
  const auto size = losses[0].step;  // steps per point
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i].step, static_cast<std::int64_t>(i + 1) * size);
    EXPECT_EQ(losses[i].values[0], static_cast<double>(losses[i].step) - static_cast<double>(size - 1) / 2);  // the mean of its steps
  }
  EXPECT_LT(steps - losses.back().step, size);
}

TEST(LiveHistory, NobodyWhoReadsSeesHalfAStep) {
  LiveHistory history;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto totals = history.read();
      EXPECT_EQ(totals.tokens, 100 * totals.steps);
      EXPECT_EQ(totals.last ? totals.last->step : 0, totals.steps);
    }
  });
  for (int step = 1; step <= 3000; ++step) history.add(record(step, 1));
  done = true;
  reader.join();
  history.add_evaluation({3000, 1.5, 10, {}});
  EXPECT_EQ(history.read().held_out.back().loss, 1.5);
}

TEST(ProgressSlot, IsReadWhole) {
  ProgressSlot slot;
  EXPECT_EQ(slot.read().since, 0);
  EXPECT_EQ(slot.read().progress.rank, -1);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto reading = slot.read();
      if (reading.since == 0) continue;
      EXPECT_EQ(reading.reported, reading.since);
      EXPECT_EQ(reading.progress.step, reading.since);
      EXPECT_EQ(reading.progress.microbatch, static_cast<std::int32_t>(reading.since));
    }
  });
  for (int number = 1; number <= 50'000; ++number) {
    cluster::Progress progress;
    progress.step = number;
    progress.microbatch = number;
    slot.write({progress, number, number});
  }
  done = true;
  reader.join();
  EXPECT_EQ(slot.read().since, 50'000);
}

// -- texts --------------------------------------------------------------------------------------------------------------------------------

TEST(StatusJson, SaysWhatEachRankDoes) {
  const auto json = nlohmann::json::parse(status_json(made_up(64)));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["run"]["schedule"], "1f1b");
  EXPECT_EQ(json["last_step"]["step"], 20);
  EXPECT_EQ(json["last_step"]["tokens_per_second"], 200.0);
  EXPECT_EQ(json["last_step"]["seconds_left"], 4990.0);
  ASSERT_EQ(json["ranks"].size(), 64U);
  const auto& rank = json["ranks"][5];
  EXPECT_EQ(rank["rank"], 5);
  EXPECT_EQ(rank["process"], 2);
  EXPECT_EQ(rank["action"], "forward");
  EXPECT_EQ(rank["stage"], 5);
  EXPECT_EQ(rank["microbatch"], 3);
  EXPECT_EQ(rank["seconds"], 0.25);
  EXPECT_EQ(rank["gradients"]["tokens"], 2);
  EXPECT_DOUBLE_EQ(rank["last_step"]["exchange"].get<double>(), 10e-9);
  EXPECT_DOUBLE_EQ(rank["last_step"]["other"].get<double>(), 20e-9);
  EXPECT_TRUE(json["ranks"][1]["action"].is_null());
  EXPECT_TRUE(json["ranks"][1]["stage"].is_null());
  for (const char* name : {"seconds", "heard_seconds", "activations", "gradients"}) EXPECT_TRUE(json["ranks"][1][name].is_null()) << name;
  EXPECT_EQ(json["losses"].size(), 10U);
  EXPECT_EQ(json["losses"][0][0], 11);
}

/// A step of two copies of two ranks, whose ranks compute for so long.
StepRecord computed(std::int64_t step, const std::vector<std::int64_t>& times) {
  StepRecord made = record(step, 1.0, 4);
  for (std::size_t rank = 0; rank < times.size(); ++rank) made.ranks[rank].compute = times[rank];
  return made;
}

// Positions compute for different times; a copy is slow if its rank takes longer than the same position elsewhere, for some steps.
TEST(LiveHistory, FindsTheCopyForWhichOthersWait) {
  LiveHistory history(2);
  for (int step = 1; step <= 3; ++step) history.add(computed(step, {1000, 4000, 2000, 4000}));
  EXPECT_FALSE(history.read().straggler) << "the first steps do not count";
  for (int step = 4; step <= 30; ++step) history.add(computed(step, {1000, 4000, 1010, 5000}));
  const auto straggler = history.read().straggler;
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->copy, 1);
  EXPECT_EQ(straggler->rank, 3);
  EXPECT_NEAR(straggler->slower, 0.25, 0.01);
  history.add(computed(31, {1000, 6000, 1010, 5000}));
  ASSERT_TRUE(history.read().straggler);
  EXPECT_EQ(history.read().straggler->copy, 1) << "one slow step of another copy is none";
  for (int step = 32; step <= 60; ++step) history.add(computed(step, {1000, 4000, 1020, 4080}));
  EXPECT_FALSE(history.read().straggler) << "2 % are not told";
  LiveHistory alone;
  for (int step = 1; step <= 9; ++step) alone.add(computed(step, {1000, 4000, 1000, 5000}));
  EXPECT_FALSE(alone.read().straggler);
}

TEST(StatusJson, TellsOfAStraggler) {
  auto view = made_up(4);
  EXPECT_FALSE(nlohmann::json::parse(status_json(view)).contains("straggler"));
  view.run.copies = 2;
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["straggler"].is_null());
  EXPECT_EQ(metrics_text(view).find("straggler"), std::string::npos);
  view.totals.straggler = Straggler{1, 3, 0.25};
  const auto json = nlohmann::json::parse(status_json(view))["straggler"];
  EXPECT_EQ(json["copy"], 1);
  EXPECT_EQ(json["rank"], 3);
  EXPECT_EQ(json["slower"], 0.25);
  EXPECT_NE(metrics_text(view).find("\nmillrace_straggler_slower_ratio{copy=\"1\",rank=\"3\"} 0.25\n"), std::string::npos);
}

TEST(StatusJson, TellsOfCheckpoints) {
  auto view = made_up(1);
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["checkpoints"]["step"].is_null());
  LiveHistory history;
  history.add_checkpoint({20, "", {{runtime::CheckpointWarning::Cause::deletion, "an old one is left"}}});
  history.add_checkpoint({30, "", {}});
  history.add_checkpoint({40, "disk full", {{runtime::CheckpointWarning::Cause::journal, "no line"}}});
  view.totals = history.read();
  const auto checkpoints = nlohmann::json::parse(status_json(view))["checkpoints"];
  EXPECT_EQ(checkpoints["step"], 30);
  EXPECT_EQ(checkpoints["committed"], 2);
  EXPECT_EQ(checkpoints["failed"], 1);
  EXPECT_EQ(checkpoints["problems"], (nlohmann::json{"disk full", "no line"}));
  const auto metrics = metrics_text(view);
  EXPECT_NE(metrics.find("\nmillrace_checkpoints_committed_total 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nmillrace_checkpoints_failed_total 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nmillrace_checkpoint_problems 2\n"), std::string::npos) << metrics;
}

TEST(StatusJson, TellsOfExpertsWhereThereAreSome) {
  auto view = made_up(1);
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["experts"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["activations"].is_null());
  EXPECT_EQ(metrics_text(view).find("expert"), std::string::npos);
  LiveHistory history;
  for (int step = 1; step <= 2; ++step) {
    auto one = record(step, 1.0);
    one.experts = {{0, "layers.0", {8, 8}, 0}, {1, "layers.1", {16, 0}, 3}};
    one.activations = {{1, 0.25, 0.5, 2.0}};
    history.add(one);
  }
  view.totals = history.read();
  const auto json = nlohmann::json::parse(status_json(view));
  const auto& experts = json["experts"];
  ASSERT_EQ(experts["routers"].size(), 2U);
  const auto& router = experts["routers"][1];
  EXPECT_EQ(router["name"], "layers.1");
  EXPECT_EQ(router["tokens"], (nlohmann::json{16, 0}));
  EXPECT_EQ(router["entropy"], 0.0);
  EXPECT_EQ(router["hottest"], 0);
  EXPECT_EQ(router["hottest_share"], 1.0);
  EXPECT_EQ(router["dropped"], 3);
  EXPECT_NEAR(experts["routers"][0]["evenness"].get<double>(), 1.0, 1e-15);
  ASSERT_EQ(experts["evenness"].size(), 2U);
  EXPECT_EQ(experts["evenness"][1][0], 2);
  EXPECT_NEAR(experts["evenness"][1][1].get<double>(), 0.5, 1e-15) << "the mean";
  EXPECT_NEAR(experts["evenness"][1][2].get<double>(), 0.0, 1e-15) << "the least";
  EXPECT_NEAR(experts["evenness"][1][3].get<double>(), 1.0, 1e-15) << "the most";
  EXPECT_EQ(json["activations"][0]["stdev"], 2.0);
  const auto metrics = metrics_text(view);
  EXPECT_NE(metrics.find("\nmillrace_expert_hottest_share_ratio{router=\"layers.1\"} 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nmillrace_expert_dropped_tokens{router=\"layers.1\"} 3\n"), std::string::npos) << metrics;
}

TEST(StatusJson, TellsOfAGpusMemoryWhereThereIsOne) {
  auto view = made_up(1);
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["last_step"]["device_bytes"].is_null());
  EXPECT_EQ(metrics_text(view).find("device_memory"), std::string::npos);
  view.totals.last->device_used = 300;
  view.totals.last->device_total = 400;
  const auto last = nlohmann::json::parse(status_json(view))["last_step"];
  EXPECT_EQ(last["device_bytes"], 300);
  EXPECT_EQ(last["device_total_bytes"], 400);
  const auto metrics = metrics_text(view);
  EXPECT_NE(metrics.find("\nmillrace_device_memory_used_bytes 300\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nmillrace_device_memory_total_bytes 400\n"), std::string::npos) << metrics;
}

TEST(StatusJson, HasNullsBeforeTheFirstStepAndForWhatIsNotFinite) {
  auto view = made_up(2);
  view.totals.last->loss = std::nan("");
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["last_step"]["loss"].is_null());
  view.totals = {};
  const auto json = nlohmann::json::parse(status_json(view));
  EXPECT_TRUE(json["last_step"].is_null());
  EXPECT_TRUE(json["ranks"][0]["last_step"].is_null());
  EXPECT_EQ(json["losses"].size(), 0U);
}

/// Checks a text against the rules of Prometheus' format 0.0.4: HELP and TYPE before a family's samples, each family once, names,
/// labels, units.
void check_exposition(const std::string& text) {
  const std::regex comment(R"(# (HELP|TYPE) (millrace_[a-z_]+) (.+))");
  const std::regex sample(R"re((millrace_[a-z_]+)(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\})? (\S+))re");
  std::istringstream lines(text);
  std::string line, family, type;
  std::set<std::string> families, samples;
  for (std::smatch match; std::getline(lines, line);) {
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "HELP") {
        family = match[2];
        EXPECT_TRUE(families.insert(family).second) << family << " comes twice";
        type.clear();
      } else {
        EXPECT_EQ(match[2], family);
        type = match[3];
        EXPECT_EQ(type == "counter", family.ends_with("_total")) << family;
        EXPECT_TRUE(type == "counter" || type == "gauge") << line;
      }
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match[1], family);
    EXPECT_FALSE(type.empty()) << line;
    EXPECT_TRUE(samples.insert(std::string(match[1]) + std::string(match[2])).second) << line;
    const std::string value = match[6];
    std::size_t used = 0;
    if (value != "NaN" && value != "+Inf" && value != "-Inf") {
      EXPECT_NO_THROW(static_cast<void>(std::stod(value, &used))) << line;
      EXPECT_EQ(used, value.size()) << line;
    }
    EXPECT_FALSE(std::regex_search(family, std::regex("_(ms|milliseconds|us|ns|nanoseconds|mib|kib|percent)(_|$)")))
        << "base units: " << family;
  }
  EXPECT_GT(families.size(), 8U);
}

TEST(MetricsText, KeepsTheRulesOfTheFormat) {
  check_exposition(metrics_text(made_up(2)));
  check_exposition(metrics_text(made_up(64)));
  auto view = made_up(3);
  view.totals.last->loss = -std::numeric_limits<double>::infinity();
  view.totals.held_out.push_back({20, std::nan("")});
  const auto text = metrics_text(view);
  check_exposition(text);
  EXPECT_NE(text.find("\nmillrace_loss -Inf\n"), std::string::npos);
  EXPECT_NE(text.find("\nmillrace_evaluation_loss NaN\n"), std::string::npos);
  EXPECT_NE(text.find(R"(directory="runs/\"a\\b\"\n")"), std::string::npos) << text.substr(0, 300);
  view.totals = {};
  check_exposition(metrics_text(view));
}

TEST(StatusJson, TellsWhatWasReadOfEachSource) {
  auto view = made_up(1);
  EXPECT_TRUE(nlohmann::json::parse(status_json(view))["last_step"]["data_read"].is_null());
  view.totals.last->data = {300, {{"web", 200, 0.5}, {"a \"code\"", 100, 2.25}}};
  const auto read = nlohmann::json::parse(status_json(view))["last_step"]["data_read"];
  EXPECT_EQ(read["tokens_seen"], 300);
  EXPECT_EQ(read["sources"][1], (nlohmann::json{{"name", "a \"code\""}, {"tokens", 100}, {"epochs", 2.25}}));
  const auto metrics = metrics_text(view);
  check_exposition(metrics);
  EXPECT_NE(metrics.find("\nmillrace_source_tokens{source=\"web\"} 200\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nmillrace_source_epochs{source=\"a \\\"code\\\"\"} 2.25\n"), std::string::npos) << metrics;
  runtime::EventScalars scalars;
  add_scalars(*view.totals.last, scalars);
  EXPECT_EQ(scalars.at(0), std::pair(std::string("data/tokens_seen"), 300.0));
  EXPECT_EQ(scalars.at(2), std::pair(std::string("data/epochs/web"), 0.5));
}

TEST(MetricsText, HasEveryRank) {
  const auto text = metrics_text(made_up(64));
  for (const char* line : {"millrace_rank_seconds_total{rank=\"63\",kind=\"compute\"} 3e-06\n", "millrace_rank_up{rank=\"1\"} 0\n",
                           "millrace_rank_up{rank=\"0\"} 1\n", "millrace_rank_queue_tokens{rank=\"9\",kind=\"gradient\"} 2\n",
                           "millrace_rank_action_seconds{rank=\"63\"} 0.25\n", "millrace_step 20\n", "millrace_steps_total 10\n",
                           "millrace_step_seconds_total 5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace millrace::actors
