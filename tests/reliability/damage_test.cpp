#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

class Damage : public ::testing::Test {
 protected:
  [[nodiscard]] CommandResult train(const std::vector<std::string>& more = {}, const std::string& before = "") const {
    auto words = training_.words("run", {"train.steps=12", "train.warmup_steps=2", "checkpoint.every=3"});
    words.insert(words.end(), more.begin(), more.end());
    return run_millrace(words, before);
  }
  /// Flips one bit of the last byte of each tensor file, in the data rather than the header.
  void damage(const std::string& step) const {
    for (const auto& entry : std::filesystem::directory_iterator(training_.path("run/checkpoints/step-" + step))) {
      if (entry.path().extension() != ".safetensors") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-1, std::ios::end);
      const int byte = file.get();
      file.seekp(-1, std::ios::end);
      file.put(static_cast<char>(byte ^ 1));
    }
  }
  Training training_;
};

TEST_F(Damage, ADamagedCheckpointIsPutAsideForTheOneBefore) {
  ASSERT_EQ(train().code, 0);
  const auto wanted = training_.result("run");
  damage("00000012");
  const auto again = train();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(has(again.err, "checkpoint of step 12 is damaged and was put aside")) << again.err;
  EXPECT_TRUE(has(again.out, "resumes after step 9")) << again.out;
  EXPECT_EQ(training_.result("run"), wanted);
}

TEST_F(Damage, WhenAllAreDamagedNothingStartsFromTheSeed) {
  ASSERT_EQ(train({"checkpoint.keep=2"}).code, 0);
  for (const char* step : {"00000009", "00000012"}) damage(step);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto again = train();
    EXPECT_EQ(again.code, static_cast<int>(ExitCode::checkpoint)) << again.out;
    EXPECT_TRUE(has(again.err, "checkpoints were committed, but none is usable")) << again.err;
    for (const char* part : {"step-00000009.bad: ", "step-00000012.bad: ", "the hash of the chunk is ", "To resume, put an intact copy"})
      EXPECT_TRUE(has(again.err, part)) << part << ", at every start: " << again.err;
    EXPECT_FALSE(has(again.out, "step 1/"));
  }
  const auto listed = run_millrace({"ckpt", "ls", training_.path("run")});
  EXPECT_EQ(listed.code, static_cast<int>(ExitCode::checkpoint)) << listed.err;
  for (const char* part : {"step        9 ", "step-00000009.bad  damaged, put aside: ", "step-00000012.bad  damaged, put aside: ",
                           "/checkpoints: no checkpoint is usable. To resume, "})
    EXPECT_TRUE(has(listed.out, part)) << part << ": " << listed.out;
  for (const char* word : {"hash", "verify"}) {
    const auto refused = run_millrace({"ckpt", word, training_.path("run")});
    EXPECT_EQ(refused.code, static_cast<int>(ExitCode::checkpoint)) << refused.out;
    EXPECT_TRUE(has(refused.err, "no checkpoint is usable. These were damaged and put aside:\n  step-00000009.bad: ")) << refused.err;
  }
}

TEST_F(Damage, ANumberThatIsNotFiniteEndsTheRunBeforeTheUpdate) {
  const std::vector<std::string> wild{"train.learning_rate=1000", "train.weight_decay=1", "train.clip=0",
                                      "train.warmup_steps=0",     "checkpoint.every=1",   "checkpoint.keep=100"};
  const auto struck = train(wild);
  EXPECT_EQ(struck.code, static_cast<int>(ExitCode::numerics)) << struck.out << struck.err;
  EXPECT_TRUE(has(struck.err, "no parameter was changed")) << struck.err;
  EXPECT_FALSE(has(struck.out, "nan")) << struck.out;
  // The checkpoint of the last good step was being written when the next step failed; it must be kept.
  const auto named = struck.err.find("step ");
  ASSERT_NE(named, std::string::npos) << struck.err;
  const int failed = std::stoi(struck.err.substr(named + 5));
  EXPECT_TRUE(std::filesystem::exists(training_.path(fmt::format("run/checkpoints/step-{:08}", failed - 1)))) << struck.err;
  // The same command resumes from the last good step and fails in the same way.
  const auto before = run_millrace({"ckpt", "hash", training_.path("run")});
  const auto again = train(wild);
  EXPECT_EQ(again.code, static_cast<int>(ExitCode::numerics)) << again.out << again.err;
  EXPECT_EQ(again.err, struck.err);
  EXPECT_EQ(run_millrace({"ckpt", "hash", training_.path("run")}).out, before.out);
}

TEST_F(Damage, UnreadableDataIsNamed) {
  // Root can read everything unless it drops that capability; it still owns the files.
  const std::string mortal = geteuid() == 0 ? "setpriv --bounding-set=-dac_override,-dac_read_search" : "";
  if (!mortal.empty() && std::system((mortal + " true 2> /dev/null").c_str()) != 0)
    GTEST_SKIP() << "this root may not give up reading everything (setpriv, CAP_SETPCAP)";
  const auto path = training_.folder() / "text/3.txt";
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const auto run = train({}, mortal);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::data)) << run.err;
  EXPECT_TRUE(has(run.err, path)) << run.err;
}

}  // namespace
}  // namespace millrace::tests
