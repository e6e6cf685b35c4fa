#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/text.hpp"

// The scripts of tools/trackers on a recorded run, once with --dry-run and once with modules that take the trackers' places and record
// their calls (tests/tools/trackers).
namespace millrace::tests {
namespace {

using Json = nlohmann::json;

constexpr const char* head = "{\"schema\":1,\"kind\":\"millrace.metrics\"}\n";
std::string step_line(int step, const std::string& loss) {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":" + loss + ",\"loss_hex\":\"0x1p+1\",\"tokens\":64,\"expert_tokens\":[[1,2]]}\n";
}
const std::string evaluation = "{\"step\":2,\"evaluation_loss\":1.75,\"evaluation_targets\":9}\n";

bool has_python() { return std::system("python3 -c 'import json, argparse, pathlib' > /dev/null 2>&1") == 0; }

class Trackers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "python3 with its standard library is not installed";
    folder_.write("run/run.toml",
                  "# a comment\nmodel.layers = 4\ntrain.steps = 3\ntrain.rate = inf\ndata.text = [\"a b\"]\nrun.record = \"none\"\n");
    folder_.write("run/metrics.jsonl", head + step_line(1, "2.5") + step_line(2, "\"nan\"") + evaluation + "{\"step\":3,\"lo");
  }

  /// Runs a script with --once; returns its exit status. Calls and output are in the folder.
  int send(const std::string& tracker, const std::string& more = "") {
    const std::string line = "cd " + source_path() + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/tools/trackers RECORDED_CALLS='" +
                             (folder_ / "calls") + "' python3 tools/trackers/to_" + tracker + ".py '" + (folder_ / "run") + "' --once " +
                             more + " > '" + (folder_ / "out") + "' 2> '" + (folder_ / "err") + "'";
    return std::system(line.c_str());
  }

  static std::vector<Json> lines_of(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  [[nodiscard]] std::vector<Json> calls() const { return lines_of(read_file(folder_ / "calls")); }
  [[nodiscard]] std::string errors() const { return read_file(folder_ / "err"); }

  /// The steps of the calls with this name.
  [[nodiscard]] std::vector<int> steps(const std::string& name) const {
    std::vector<int> found;
    for (const auto& call : calls())
      if (call[0] == name) found.push_back(call[1].get<int>());
    return found;
  }

  /// The run goes on from the checkpoint of step 1: the file is replaced, and step 2 is there again.
  void resume_run() {
    folder_.write("run/metrics.jsonl", head + step_line(1, "2.5") + step_line(2, "\"nan\"") + evaluation + step_line(3, "1.5"));
  }

  TemporaryFolder folder_;
};

TEST_F(Trackers, PrintWhatTheyWouldSend) {
  for (const std::string tracker : {"wandb", "mlflow", "aim"}) {
    ASSERT_EQ(send(tracker, "--dry-run --name mine"), 0) << errors();
    const auto lines = lines_of(read_file(folder_ / "out"));
    ASSERT_EQ(lines.size(), 4U) << tracker;
    EXPECT_EQ(lines[0], Json::parse(R"({"tracker": ")" + tracker + R"(", "name": "mine", "config": {"model.layers": 4, "train.steps": 3,
        "train.rate": "inf", "data.text": ["a b"], "run.record": "none"}})"));
    EXPECT_EQ(lines[1], Json::parse(R"({"kind": "step", "step": 1, "metrics": {"loss": 2.5, "tokens": 64}})"));
    EXPECT_EQ(lines[2], Json::parse(R"({"kind": "step", "step": 2, "metrics": {"loss": "NaN", "tokens": 64}})"));
    EXPECT_EQ(lines[3], Json::parse(R"({"kind": "evaluation", "step": 2, "metrics": {"evaluation_loss": 1.75, "evaluation_targets": 9}})"));
    EXPECT_NE(std::system(("test -e '" + (folder_ / "run/trackers") + "'").c_str()), 0) << "a dry run keeps nothing";
  }
}

TEST_F(Trackers, SendEachRecordOnceToWeightsAndBiases) {
  folder_.write("run/metrics.jsonl", head + step_line(1, "2.5") + step_line(2, "2.25"));
  ASSERT_EQ(send("wandb", "--project test"), 0) << errors();
  const auto first = calls();
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first[0][1], "test");
  EXPECT_EQ(first[0][2], "run");
  EXPECT_EQ(first[0][5]["model.layers"], 4);
  EXPECT_EQ(first[1], Json::parse(R"(["log", 1, {"loss": 2.5, "tokens": 64}])"));
  resume_run();
  ASSERT_EQ(send("wandb", "--project test"), 0) << errors();
  EXPECT_EQ(steps("log"), (std::vector{1, 2, 2, 3})) << "the evaluation of step 2, and step 3";
  EXPECT_EQ(calls()[4][3], first[0][3]) << "the same run";
  EXPECT_EQ(calls().back()[0], "finish");
}

TEST_F(Trackers, SendEachRecordOnceToMlflow) {
  std::string config;
  for (int i = 0; i < 130; ++i) config += "key" + std::to_string(i) + " = " + std::to_string(i) + "\n";
  folder_.write("run/run.toml", config + "long = \"" + std::string(600, 'x') + "\"\n");
  ASSERT_EQ(send("mlflow", "--uri file:/nowhere --name mine"), 0) << errors();
  const auto first = calls();
  ASSERT_EQ(first.size(), 9U);
  EXPECT_EQ(first[0], Json::parse(R"(["uri", "file:/nowhere"])"));
  EXPECT_EQ(first[2], Json::parse(R"(["start", null, "mine"])"));
  EXPECT_EQ(first[3][1].size() + first[4][1].size(), 131U);
  EXPECT_EQ(first[4][1]["long"].get<std::string>().size(), 500U);
  resume_run();
  ASSERT_EQ(send("mlflow"), 0) << errors();
  EXPECT_EQ(steps("log"), (std::vector{1, 2, 2, 3}));
  EXPECT_EQ(calls()[10], Json::parse(R"(["start", "run-of-mlflow", null])"));
}

TEST_F(Trackers, SendEachRecordOnceToAim) {
  ASSERT_EQ(send("aim", "--name mine"), 0) << errors();
  EXPECT_EQ(calls()[0], Json::parse(R"(["run", null, null, "millrace"])"));
  EXPECT_EQ(calls()[1][2]["train.steps"], 3);
  EXPECT_EQ(calls()[2], Json::parse(R"(["track", 1, "loss", 2.5, "train"])"));
  EXPECT_EQ(calls()[6], Json::parse(R"(["track", 2, "evaluation_loss", 1.75, "evaluation"])"));
  EXPECT_EQ(calls().back(), Json::parse(R"(["finish", "mine"])"));
  resume_run();
  ASSERT_EQ(send("aim"), 0) << errors();
  EXPECT_EQ(steps("track"), (std::vector{1, 1, 2, 2, 2, 2, 3, 3}));
}

TEST_F(Trackers, FollowAFileUntilTheLastStep) {
  const std::string run = folder_ / "run";
  const std::string line = "cd " + source_path() + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/tools/trackers RECORDED_CALLS='" +
                           (folder_ / "calls") + "' timeout 100 sh -c 'python3 tools/trackers/to_wandb.py \"" + run +
                           "\" --interval 0.05 & " + "until grep -q evaluation_loss \"" + (folder_ / "calls") +
                           "\" 2> /dev/null; do sleep 0.05; done; " + "cp \"" + (folder_ / "whole") + "\" \"" + run + "/new\" && mv \"" +
                           run + "/new\" \"" + run + "/metrics.jsonl\"; wait'";
  folder_.write("whole", head + step_line(1, "2.5") + step_line(2, "2.25") + evaluation + step_line(3, "1.5"));
  folder_.write("run/metrics.jsonl", head + step_line(1, "2.5") + step_line(2, "2.25") + evaluation + "{\"step\":3,\"lo");
  ASSERT_EQ(std::system(line.c_str()), 0);
  EXPECT_EQ(steps("log"), (std::vector{1, 2, 2, 3}));
}

TEST_F(Trackers, EndAtOnceBehindTheLastEvaluation) {
  // With looks an hour apart, only an end at the first one is an end in time.
  const std::string last = "{\"step\":3,\"evaluation_loss\":1.5,\"evaluation_targets\":9}\n";
  const auto follow = [&] {
    const std::string line = "cd " + source_path() + " && PYTHONDONTWRITEBYTECODE=1 timeout 60 python3 tools/trackers/to_wandb.py '" +
                             (folder_ / "run") + "' --interval 3600 --dry-run > /dev/null 2> '" + (folder_ / "err") + "'";
    return std::system(line.c_str());
  };
  folder_.write("run/metrics.jsonl", head + step_line(3, "1.5") + last);
  EXPECT_EQ(follow(), 0) << errors();
  folder_.write("run/metrics.jsonl", head + step_line(3, "1.5"));
  folder_.write("run/run.toml", "train.steps = 3\ndata.held_out = 0\ndata.validation = []\n");
  EXPECT_EQ(follow(), 0) << errors();
}

TEST_F(Trackers, SayWhichPackageIsMissing) {
  const std::string line = "cd " + source_path() + " && PYTHONDONTWRITEBYTECODE=1 python3 -S tools/trackers/to_aim.py '" +
                           (folder_ / "run") + "' --once > /dev/null 2> '" + (folder_ / "err") + "'";
  EXPECT_NE(std::system(line.c_str()), 0);
  EXPECT_EQ(errors(), "to_aim.py needs Python's package aim, which is not installed: pip install aim\n");
}

TEST_F(Trackers, SayWhatIsWrong) {
  EXPECT_NE(send("wandb", "--interval 0"), 0);
  expect_parts(errors(), {"--interval 0.0, expected seconds above 0"});
  folder_.write("run/metrics.jsonl", "{\"schema\":1,\"kind\":\"other\"}\n");
  EXPECT_NE(send("wandb", "--dry-run"), 0);
  expect_parts(errors(), {"metrics.jsonl: kind other, expected millrace.metrics"});
  std::filesystem::remove(folder_ / "run/run.toml");
  EXPECT_NE(send("wandb", "--dry-run"), 0);
  expect_parts(errors(), {"run has no run.toml, expected the run.directory of a run"});
  std::filesystem::remove_all(folder_ / "run");
  EXPECT_NE(send("wandb", "--dry-run"), 0);
  expect_parts(errors(), {"run: there is no such run directory"});
}

}  // namespace
}  // namespace millrace::tests
