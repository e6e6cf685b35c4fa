#include <sys/mount.h>

#include <fstream>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// One process with four ranks: the seam counts the calls of all ranks.
class Disk : public ::testing::Test {
 protected:
  static constexpr const char* directory = "run";
  static constexpr int last_call = 240;  // after this the run repeats the same calls for its next checkpoint
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more = {}) const {
    auto all = training_.words(directory, {"train.steps=12", "train.warmup_steps=2", "checkpoint.every=3", "evaluate.every=6"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] CommandResult train(const std::string& fault = "") const {
    return run_millrace(words(), fault.empty() ? "" : "MILLRACE_FAULT='" + fault + "'");
  }
  void forget() const { std::filesystem::remove_all(training_.path(directory)); }

  /// After a fault: the run continued, or ended with one message and the exit code for storage; every existing checkpoint is
  /// complete; and the same command on a healthy disk ends with the results of an undisturbed run.
  void expect_survives(const std::string& fault, const TrainingResult& wanted) const {
    SCOPED_TRACE(fault);
    forget();
    const auto struck = train(fault);
    EXPECT_TRUE(struck.code == 0 || struck.code == static_cast<int>(ExitCode::storage)) << struck.code << "\n" << struck.out << struck.err;
    if (struck.code != 0) {
      EXPECT_EQ(lines_with(struck.err, "\n") - lines_with(struck.err, "warning: "), 1) << struck.err;
    }
    if (std::filesystem::exists(training_.path("run/checkpoints")) && !std::filesystem::is_empty(training_.path("run/checkpoints"))) {
      EXPECT_NE(run_millrace({"ckpt", "verify", training_.path(directory)}).code, static_cast<int>(ExitCode::difference));
    }
    const auto healthy = train();
    EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
    EXPECT_EQ(training_.result(directory), wanted);
  }

  Training training_;
};

TEST_F(Disk, FullOrBrokenAtACallLosesNothing) {
  ASSERT_EQ(train().code, 0);
  const auto wanted = training_.result(directory);
  for (int call = FIRST_CALL; call <= last_call; call += CALL_STRIDE) {
    for (const char* kind : {"enospc", "eio"})
      for (const char* when : {"call", "from"})
        expect_survives("io:" + std::string(when) + "=" + std::to_string(call) + ":" + kind, wanted);
  }
}

TEST_F(Disk, CheckpointsThatFailWarnAndTheThirdEndsTheRun) {
  const auto struck = train("io:path=checkpoints:op=write:from=1:enospc");
  EXPECT_EQ(struck.code, static_cast<int>(ExitCode::storage)) << struck.out;
  EXPECT_TRUE(has(struck.err, "warning: no checkpoint of step 3")) << struck.err;
  EXPECT_TRUE(has(struck.err, "last three checkpoints could not be written")) << struck.err;
  EXPECT_TRUE(has(struck.err, "The run has no checkpoint: the same command begins anew\n")) << struck.err;
}

TEST_F(Disk, ASmallFileSystemFillsUp) {
  const auto mounted = training_.folder() / "small";
  std::filesystem::create_directories(mounted);
  if (mount("none", mounted.c_str(), "tmpfs", 0, "size=2000k") != 0) GTEST_SKIP() << "mounting is not allowed here";
  const auto run = run_millrace(words({"run.directory=" + mounted + "/run"}));
  const auto listed = run_millrace({"ckpt", "verify", mounted + "/run"});
  umount2(mounted.c_str(), MNT_DETACH);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::storage)) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "checkpoint of step 3 is committed")) << run.out << run.err;
  EXPECT_TRUE(has(run.err, "are free, expected 1.2 times a checkpoint of")) << run.err;
  // The last line has the reason too, and says from where the run can be resumed.
  const auto last = run.err.substr(run.err.rfind("could not be written: "));
  EXPECT_TRUE(has(last, "are free, expected 1.2 times") && has(last, "The run can be resumed from its checkpoint of step ")) << run.err;
  EXPECT_EQ(listed.code, 0) << listed.out << listed.err;
}

TEST_F(Disk, ALowerCheckpointKeepMakesRoomOnAFullOne) {
  ASSERT_EQ(train().code, 0);
  std::uintmax_t bytes = 0;  // of a checkpoint
  for (const auto& file : std::filesystem::directory_iterator(training_.path("run/checkpoints/step-00000012"))) bytes += file.file_size();
  const auto mounted = training_.folder() / "small";
  std::filesystem::create_directories(mounted);
  // There is room for three and the other files; a fourth needs 1.2 times its size.
  const auto size = "size=" + std::to_string(4 * bytes / 1024) + "k";
  if (mount("none", mounted.c_str(), "tmpfs", 0, size.c_str()) != 0) GTEST_SKIP() << "mounting is not allowed here";
  const auto keeping = [&](const char* keep) {
    return run_millrace(words({"run.directory=" + mounted + "/run", "checkpoint.every=1", std::string("checkpoint.keep=") + keep}));
  };
  const auto many = keeping("9"), few = keeping("2");
  umount2(mounted.c_str(), MNT_DETACH);
  EXPECT_EQ(many.code, static_cast<int>(ExitCode::storage)) << many.out << many.err;
  EXPECT_TRUE(has(many.err, "resumed from its checkpoint of step 3")) << many.err;
  EXPECT_EQ(few.code, 0) << few.out << few.err;
}

}  // namespace
}  // namespace millrace::tests
