#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "tests/reliability/kill_trials.hpp"
#include "tests/support/paths.hpp"

// Two or four hosts on one machine (emulated_hosts.sh), with four processes in all, connected only by TCP.
namespace millrace::tests {
namespace {

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto output = folder_ / "output";
    if (std::system(("'" + script_ + "' --check > '" + output + "' 2>&1").c_str()) == 0) return;
    std::ifstream stream(output);
    std::string why;
    std::getline(stream, why);
    GTEST_SKIP() << "hosts cannot be emulated: " << why;
  }
  /// The launcher of four processes: of two hosts the second has the last two or, `in_turn`, every other one.
  [[nodiscard]] std::vector<std::string> on_hosts(int hosts, bool in_turn = false) const {
    std::vector<std::string> words{script_, std::to_string(hosts), folder_ / "cut"};
    const auto launcher = mpirun(4);
    words.insert(words.end(), launcher.begin(), launcher.end());
    if (in_turn) words.insert(words.end(), {"--map-by", "node"});
    return words;
  }
  [[nodiscard]] std::vector<std::string> on_two_hosts(bool in_turn = false) const { return on_hosts(2, in_turn); }
  void cut_the_link() const { folder_.write("cut", "now"); }
  /// Four hosts with a copy each, of which the last one becomes silent in the middle of a step whose reductions take most of the time: by
  /// a cut link, or since its process is stopped. Then two copies on one host go on.
  void lose_a_copy(const std::string& directory, bool by_cut);

  TemporaryFolder folder_;
  Training training_;
  std::string script_ = source_path("tests/reliability/emulated_hosts.sh");
};

TEST_F(Hosts, TwoHaveTheBitsOfOne) {
  Job job(on_two_hosts(), training_.words("run"));
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
  ASSERT_EQ(end->code, 0) << end->out << end->err;
  const auto result = training_.result("run");
  EXPECT_EQ(result.hash, training_.undisturbed().hash);
  EXPECT_EQ(result.metrics, training_.undisturbed().metrics);
}

TEST_F(Hosts, ShareExpertsWithinAndAcrossThem) {
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

TEST_F(Hosts, ACutLinkIsNamedAndTheRunResumes) {
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

TEST_F(Hosts, HaveCopiesThatDivideTheirWork) {
  const std::vector<std::string> parts{"train.accumulators=2"}, leaves{"train.leaf=microbatch"};
  for (const auto& [shard, sums] : {std::pair{"optimizer", parts}, {"gradients", leaves}, {"parameters", leaves}}) {
    Training training(with(sums, {"mesh.data=2", "pipeline.ranks=2"}));
    const std::vector<std::string> one{"mesh.data=1", "pipeline.ranks=1"};
    const auto alone = training.run(1, "alone", one);
    ASSERT_EQ(alone.code, 0) << alone.out << alone.err;
    for (const int hosts : {2, 4}) {
      const std::string directory = std::string(shard) + std::to_string(hosts);
      Job job(on_hosts(hosts), training.words(directory, {std::string("mesh.shard=") + shard}));
      const auto end = job.wait(Training::patience);
      ASSERT_TRUE(end) << directory << ": the job hangs\n" << job.out() << job.err();
      ASSERT_EQ(end->code, 0) << directory << end->out << end->err;
      EXPECT_EQ(training.result(directory).hash, training.result("alone").hash) << directory;
    }
  }
}

void Hosts::lose_a_copy(const std::string& directory, bool by_cut) {
  Training training({"mesh.data=4", "mesh.shard=optimizer", "pipeline.ranks=1", "train.accumulators=4", "train.microbatches=4"});
  {
    Job job(on_hosts(4), training.words(directory, {"cluster.timeout_ms=3000"}), {"MILLRACE_FAULT=point=replicas.reduce:delay=100"});
    ASSERT_TRUE(job.wait_for("step 6/", Training::patience)) << job.out() << job.err();
    const auto last = job.process(3);
    ASSERT_TRUE(last);
    if (by_cut)
      cut_the_link();
    else
      ASSERT_EQ(::kill(*last, SIGSTOP), 0);
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_NE(end->code, 0) << end->out;
    EXPECT_TRUE(has(end->err, "process 3 on host4 (rank 3) was lost: it was silent for ")) << end->err;
    EXPECT_TRUE(has(end->err, "of replicas: 1 of 4 have not delivered")) << end->err;
    EXPECT_FALSE(has(end->out, "step " + std::to_string(Training::steps) + "/")) << "the run was over before";
    if (!by_cut) ::kill(*last, SIGCONT);
    EXPECT_TRUE(job.all_gone(Job::Seconds(20))) << "processes are still running";
  }
  const auto again = training.run(2, directory, {"mesh.data=2"});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_EQ(training.result(directory), training.undisturbed());
}

TEST_F(Hosts, ALinkCutInAReductionIsNamedAndTwoCopiesResume) { lose_a_copy("cut_off", true); }

TEST_F(Hosts, ACopyThatIsStoppedIsNamedAndTwoCopiesResume) { lose_a_copy("stopped", false); }

}  // namespace
}  // namespace millrace::tests
