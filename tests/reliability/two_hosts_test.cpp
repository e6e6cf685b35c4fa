#include <cstdlib>
#include <fstream>

#include "tests/reliability/kill_trials.hpp"
#include "tests/support/paths.hpp"

// Two hosts on one machine (emulated_hosts.sh), with two processes on each, connected only by TCP.
namespace millrace::tests {
namespace {

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto output = folder_ / "output";
    if (std::system(("'" + script_ + "' --check > '" + output + "' 2>&1").c_str()) == 0) return;
    std::ifstream stream(output);
    std::string why;
    std::getline(stream, why);
    GTEST_SKIP() << "two hosts cannot be emulated: " << why;
  }
  /// The launcher of four processes, of which the last two are on the second host or, `in_turn`, every other one.
  [[nodiscard]] std::vector<std::string> on_two_hosts(bool in_turn = false) const {
    std::vector<std::string> words{script_, folder_ / "cut"};
    const auto launcher = mpirun(4);
    words.insert(words.end(), launcher.begin(), launcher.end());
    if (in_turn) words.insert(words.end(), {"--map-by", "node"});
    return words;
  }
  void cut_the_link() const { folder_.write("cut", "now"); }

  TemporaryFolder folder_;
  Training training_;
  std::string script_ = source_path("tests/reliability/emulated_hosts.sh");
};

TEST_F(TwoHosts, HaveTheBitsOfOne) {
  Job job(on_two_hosts(), training_.words("run"));
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
  ASSERT_EQ(end->code, 0) << end->out << end->err;
  const auto result = training_.result("run");
  EXPECT_EQ(result.hash, training_.undisturbed().hash);
  EXPECT_EQ(result.metrics, training_.undisturbed().metrics);
}

TEST_F(TwoHosts, ShareExpertsWithinAndAcrossThem) {
  // Ranks 0 and 2 share experts, and so do 1 and 3: across the hosts, or each on one host while the pipeline goes across.
  Training training(with(deepseek, {"mesh.expert=2", "train.accumulators=2", "pipeline.ranks=2"}));
  for (const bool in_turn : {false, true}) {
    const std::string directory = in_turn ? "within" : "across";
    Job job(on_two_hosts(in_turn), training.words(directory));
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << directory << ": the job hangs\n" << job.out() << job.err();
    ASSERT_EQ(end->code, 0) << directory << end->out << end->err;
    EXPECT_EQ(training.result(directory), training.undisturbed()) << directory;
  }
}

TEST_F(TwoHosts, ACutLinkIsNamedAndTheRunResumes) {
  {
    // A slow stage, so that the cut happens during the run.
    Job job(on_two_hosts(), training_.words("run", {"cluster.timeout_ms=3000"}), {"MILLRACE_FAULT=point=stage1.forward:delay=30"});
    ASSERT_TRUE(job.wait_for("step 6/", Training::patience)) << job.out() << job.err();
    cut_the_link();
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_NE(end->code, 0) << end->out;
    for (const int process : {2, 3}) EXPECT_TRUE(says_lost(end->err, process)) << process << "\n" << end->err;
    for (const int process : {0, 1})
      EXPECT_FALSE(has(end->out + end->err, "process " + std::to_string(process) + " on host1 (")) << end->err;
    EXPECT_TRUE(has(end->err, "on host2 (rank 2) was lost: it was silent for ")) << end->err;
    EXPECT_FALSE(has(end->out, "step " + std::to_string(Training::steps) + "/")) << "the run was over before the cut";
    EXPECT_TRUE(job.all_gone(Job::Seconds(20))) << "processes on the second host are still running";
  }
  // On one host only, since the other side's network is gone.
  const auto again = training_.run(4, "run");
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  const auto result = training_.result("run");
  EXPECT_EQ(result.hash, training_.undisturbed().hash);
  EXPECT_EQ(result.metrics, training_.undisturbed().metrics);
}

}  // namespace
}  // namespace millrace::tests
