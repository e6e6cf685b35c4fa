#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "kernels/base/check.hpp"
#include "tests/reliability/job.hpp"
#include "tests/support/http_client.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = Job::Seconds(240);
using Clock = std::chrono::steady_clock;

class Status : public ::testing::Test {
 protected:
  Status() { write_stories(folder_, 40); }

  /// The smallest model on four ranks, running long enough to be observed.
  [[nodiscard]] Words words(const std::string& directory, const Words& more = {}) const {
    const Words all{"train",
                    source_path("configs/runs/tiny.toml"),
                    "run.directory=" + folder_ / directory,
                    "data.text=" + folder_ / "text",
                    "train.steps=120",
                    "train.warmup_steps=1",
                    "train.sequence=32",
                    "pipeline.ranks=4",
                    "train.threads=1"};
    return joined(all, more);
  }

  /// The port of the URL in a run's output; 0 if the run ends without one.
  static int port_of(Job& job) {
    if (!job.wait_for("\nmemory ", patience)) return 0;
    const auto out = job.out();
    std::smatch match;
    return std::regex_search(out, match, std::regex("\nstatus +http://127\\.0\\.0\\.1:([0-9]+)/\n")) ? std::stoi(match[1]) : 0;
  }

  /// The losses in a run's metrics, with all their bits.
  [[nodiscard]] std::vector<std::string> losses(const std::string& directory) const {
    std::vector<std::string> found;
    std::istringstream lines(read_file(folder_ / (directory + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("loss_hex")) found.push_back(json["loss_hex"]);
    return found;
  }

  /// The line of metrics.jsonl with a step.
  nlohmann::json record_of(const std::string& name, int step) const {
    std::ifstream stream(folder_ / name + "/metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      if (auto json = nlohmann::json::parse(line); json.contains("loss_hex") && json["step"] == step) return json;
    return {};
  }

  TemporaryFolder folder_;
};

/// The value of a sample without labels; -1 if there is none.
double metric(const std::string& text, const std::string& name) {
  const auto place = text.find("\n" + name + " ");
  return place == std::string::npos ? -1 : std::stod(text.substr(place + name.size() + 2));
}

TEST_F(Status, ShowsARunOfTwoProcessesWithoutChangingIt) {
  Job job(mpirun(2), words("watched", {"status.port=0"}));
  const int port = port_of(job);
  ASSERT_GT(port, 0) << job.out() << job.err();
  const auto page = get(port, "/");
  EXPECT_EQ(page.code, 200);
  EXPECT_NE(page.body.find("Pipeline now"), std::string::npos);
  EXPECT_EQ(std::regex_search(page.body, std::regex("(src|href)=\"(?!data:)|@import|url\\((?!data:)")), false)
      << "something from elsewhere";

  nlohmann::json status;
  std::string metrics;
  std::set<std::string> actions;
  int looks = 0;
  // Polls until the run is over.
  while (true) {
    const auto answer = get(port, "/status");
    if (answer.code != 200) break;
    const auto seen = nlohmann::json::parse(answer.body);
    const auto text = get(port, "/metrics");
    bool all = text.code == 200 && !seen["last_step"].is_null();
    for (const auto& rank : seen["ranks"]) {
      all = all && !rank["action"].is_null() && !rank["last_step"].is_null();
      if (rank["process"] == 1 && !rank["action"].is_null()) actions.insert(rank["action"]);
    }
    if (all) {
      status = seen;
      metrics = text.body;
      ++looks;
    }
    std::this_thread::sleep_for(20ms);
  }
  const auto end = job.wait(patience);
  ASSERT_TRUE(end);
  ASSERT_EQ(end->code, 0) << end->err;

  ASSERT_GT(looks, 0);
  EXPECT_EQ(status["run"]["steps"], 120);
  EXPECT_EQ(status["run"]["processes"], 2);
  EXPECT_EQ(status["run"]["schedule"], "1f1b");
  ASSERT_EQ(status["ranks"].size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& reported = status["ranks"][static_cast<std::size_t>(rank)];
    EXPECT_EQ(reported["rank"], rank);
    EXPECT_EQ(reported["process"], rank / 2);
    EXPECT_GT(reported["step"].get<int>(), 0);
    for (const char* name : {"seconds", "heard_seconds"}) {
      EXPECT_GE(reported[name].get<double>(), 0) << name;
      EXPECT_LE(reported[name].get<double>(), status["up_seconds"].get<double>()) << name;
    }
    EXPECT_EQ(reported["activations"]["slots"].get<int>() > 0, rank > 0);
    EXPECT_EQ(reported["gradients"]["slots"].get<int>() > 0, rank < 3);
    const auto& times = reported["last_step"];
    EXPECT_GT(times["compute"].get<double>(), 0);
    const double sum = times["compute"].get<double>() + times["bubble"].get<double>() + times["wait"].get<double>() +
                       times["exchange"].get<double>() + times["data"].get<double>() + times["other"].get<double>();
    EXPECT_NEAR(sum, times["wall"].get<double>(), 1e-9);
  }
  EXPECT_FALSE(actions.empty());
  // The figures of a step are the same in the status, in metrics.jsonl and on the line.
  const auto& last = status["last_step"];
  const std::string step = std::to_string(last["step"].get<int>());
  const auto record = record_of("watched", last["step"].get<int>());
  for (const char* name : {"loss", "gradient_norm", "learning_rate", "tokens_per_second", "flops_utilization", "bubble", "wait"})
    EXPECT_EQ(last[name], record[name]) << name << " of step " << step;
  const auto line = end->out.substr(end->out.find("step " + step + "/120 "));
  EXPECT_EQ(line.find(fmt::format(" | {:>4.1f}% MFU | ", 100 * last["flops_utilization"].get<double>())),
            line.find(" | ", line.find("tok/s")))
      << line.substr(0, line.find('\n'));
  EXPECT_FALSE(status["losses"].empty());

  for (const char* name : {"millrace_step", "millrace_steps_total", "millrace_tokens_total", "millrace_step_seconds_total", "millrace_loss",
                           "millrace_gradient_norm", "millrace_last_step_seconds", "millrace_resident_memory_bytes"})
    EXPECT_GT(metric(metrics, name), 0) << name;
  for (int rank = 0; rank < 4; ++rank) {
    const auto label = "{rank=\"" + std::to_string(rank) + "\"";
    expect_parts(metrics, {"millrace_rank_up" + label + "} 1\n", "millrace_rank_seconds_total" + label + ",kind=\"bubble\"} ",
                           "millrace_rank_queue_slots" + label + ",kind=\"gradient\"} ", "millrace_rank_action_seconds" + label + "} "});
  }

  ASSERT_EQ(run_millrace(words("alone"), on_processes(2)).code, 0);
  const auto watched = losses("watched");
  EXPECT_EQ(watched.size(), 120U);
  EXPECT_EQ(watched, losses("alone"));
}

TEST_F(Status, ProfilesARunThatGoesOn) {
  Job job(mpirun(2), words("profiled", {"status.port=0", "train.steps=100000", "evaluate.every=7", "checkpoint.every=3"}));
  const int port = port_of(job);
  ASSERT_GT(port, 0) << job.out() << job.err();
  ASSERT_TRUE(job.wait_for("\nstep 16/", patience)) << job.err();
  const auto answer = ask(port, request_text("/profile", "", "POST"));
  EXPECT_EQ(answer.code, 202);
  EXPECT_EQ(answer.body, "a profile of the last steps goes to " + folder_ / "profiled/profiles" + "\n");
  ASSERT_TRUE(job.wait_for("\nprofile   of 5 steps in ", patience)) << job.err();
  kill(job.launcher(), SIGUSR2);
  const auto folders_by = [&](Clock::time_point deadline) {
    std::vector<std::string> folders;
    while (folders.size() < 2 && Clock::now() < deadline) {
      std::this_thread::sleep_for(20ms);
      folders.clear();
      for (const auto& entry : std::filesystem::directory_iterator(folder_ / "profiled/profiles"))
        if (std::filesystem::exists(entry.path() / "report.html")) folders.push_back(entry.path().string());
    }
    return folders;
  };
  const auto folders = folders_by(Clock::now() + 60s);
  kill(job.launcher(), SIGUSR1);
  const auto end = job.wait(patience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 0) << end->err;
  EXPECT_EQ(end->err.find("warning"), std::string::npos) << end->err;

  EXPECT_EQ(folders.size(), 2U) << end->out;
  for (const auto& folder : folders) {
    const auto checked = run_millrace({"profile", "--check", folder});
    EXPECT_EQ(checked.code, 0) << checked.out;
    const auto profile = nlohmann::json::parse(read_file(folder + "/profile.json"));
    EXPECT_EQ(profile["steps"].size(), 5U);
    EXPECT_EQ(profile["ranks"].size(), 4U);
  }
}

TEST_F(Status, AProfileWithoutAFolderIsWarnedOf) {
  Job job({}, words("", {"run.directory=", "status.port=0", "train.steps=100000"}));
  const int port = port_of(job);
  ASSERT_GT(port, 0) << job.err();
  const auto answer = ask(port, request_text("/profile", "", "POST"));
  EXPECT_EQ(answer.code, 409);
  EXPECT_NE(answer.body.find("run.directory is empty"), std::string::npos) << answer.body;
  kill(job.launcher(), SIGUSR2);
  for (int turn = 0; turn < 500 && job.err().find("no profile: run.directory is empty") == std::string::npos; ++turn)
    std::this_thread::sleep_for(20ms);
  EXPECT_NE(job.err().find("warning: no profile: run.directory is empty"), std::string::npos) << job.err();
}

TEST_F(Status, PromtoolTakesTheMetrics) {
  if (std::system("command -v promtool > /dev/null") != 0)
    GTEST_SKIP() << "promtool is not installed (Debian's package prometheus): /metrics is not checked with it";
  Job job({}, words("metrics", {"status.port=0", "train.steps=100000"}));
  const int port = port_of(job);
  ASSERT_GT(port, 0) << job.err();
  ASSERT_TRUE(job.wait_for("\nstep 2/", patience)) << job.err();
  const auto file = folder_.write("metrics.txt", get(port, "/metrics").body);
  EXPECT_EQ(std::system(("promtool check metrics < '" + file + "' > '" + file + ".problems' 2>&1").c_str()), 0)
      << read_file(file + ".problems");
  EXPECT_EQ(read_file(file + ".problems"), "");
}

TEST_F(Status, ARunIsOffUnlessAsked) {
  const auto run = run_millrace(words("quiet", {"train.steps=2"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out.find("http://"), std::string::npos);
}

TEST_F(Status, ATokenIsWantedByTheRunToo) {
  const auto file = folder_.write("token", "0123456789abcdef0123\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  Job job({}, words("secret", {"status.port=0", "status.address=0.0.0.0", "status.token_file=" + file, "train.steps=100000"}));
  ASSERT_TRUE(job.wait_for("\nmemory ", patience)) << job.err();
  const auto out = job.out();
  std::smatch match;
  ASSERT_TRUE(std::regex_search(out, match, std::regex("\nstatus +http://[^:]+:([0-9]+)/\n"))) << out;
  const int port = std::stoi(match[1]);
  EXPECT_EQ(get(port, "/status").code, 401);
  EXPECT_EQ(get(port, "/status", "Authorization: Bearer 0123456789abcdef0123\r\n").code, 200);
  EXPECT_EQ(out.find("0123456789abcdef0123"), std::string::npos);
}

TEST_F(Status, MistakesEndTheRunBeforeItBegins) {
  const auto fails = [&](ExitCode code, const Words& more, const Words& parts, const std::string& launcher = "") {
    expect_failure(run_millrace(words("wrong", more), launcher), code, parts);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "wrong/metrics.jsonl"));
  };
  fails(ExitCode::config, {"status.port=0", "status.address=0.0.0.0"}, {"status.address = 0.0.0.0", "status.token_file"}, on_processes(2));
  fails(ExitCode::config, {"status.port=0", "status.address=here"}, {"status.address = \"here\""});
  fails(ExitCode::config, {"status.port=70000"}, {"status.port"});
  fails(ExitCode::config, {"status.port=0", "status.token_file=" + folder_ / "nowhere"}, {folder_ / "nowhere"});
  const auto open = folder_.write("open", "0123456789abcdef\n");
  std::filesystem::permissions(open, std::filesystem::perms(0644));
  fails(ExitCode::config, {"status.port=0", "status.token_file=" + open}, {"chmod 600"});
  const auto small = folder_.write("small", "abc\n");
  std::filesystem::permissions(small, std::filesystem::perms(0600));
  fails(ExitCode::config, {"status.port=0", "status.token_file=" + small}, {"3 characters"});

  Job job({}, words("first", {"status.port=0", "train.steps=100000"}));
  const int port = port_of(job);
  ASSERT_GT(port, 0) << job.err();
  fails(ExitCode::start, {"status.port=" + std::to_string(port)}, {"port " + std::to_string(port), "in use", "status.port"});
}

}  // namespace
}  // namespace millrace::tests
