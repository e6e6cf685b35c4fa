#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"
#include "tests/training/device_run.hpp"

// The messages of a run on GPUs that cannot continue.
namespace millrace::tests {
namespace {

class DeviceErrors : public DeviceRun {
 protected:
  static void expect_end(const JobResult& job, ExitCode code, const std::vector<std::string>& parts) {
    EXPECT_EQ(job.code, static_cast<int>(code)) << job.out << job.err;
    for (const auto& part : parts) EXPECT_NE(job.err.find(part), std::string::npos) << "expected \"" << part << "\" in: " << job.err;
  }
};

/// The same on an emulated GPU, in which faults are injected.
class EmulatedErrors : public DeviceErrors {
 protected:
  void SetUp() override {
    if (!emulated()) GTEST_SKIP() << "there is no emulated GPU";
  }
};

TEST(DeviceErrorsWithoutCuda, SayWhyThereIsNone) {
  const std::string why = kernels::why_no_cuda();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  const auto job = run_job(1, {"train", "configs/runs/tiny.toml", "device=cuda", "data.text=docs"});
  EXPECT_EQ(job.code, static_cast<int>(ExitCode::config)) << job.err;
  EXPECT_NE(job.err.find(why), std::string::npos) << job.err;
}

TEST_F(DeviceErrors, NameTheGpusThatThereAre) {
  const auto devices = std::to_string(kernels::cuda_devices().size());
  for (const int processes : {1, 2})
    expect_end(start(processes, "run", {"cuda.device=1000", "pipeline.ranks=2"}), ExitCode::config,
               {"cuda.device = 1000", "has " + devices + " GPUs"});
}

TEST_F(DeviceErrors, ATokenOutsideTheVocabularyIsTheDatas) {
  std::string tokens;
  for (int i = 0; i < 600; ++i) tokens += {static_cast<char>(i % 200), static_cast<char>(i == 555 ? 1 : 0)};
  folder_.write("tokens/train.bin", tokens);
  Words words{"data.text=", "data.held_out=0", "data.tokens=" + folder_ / "tokens", "model.vocab_size=200", "train.steps=8"};
  expect_end(start(1, "run", words), ExitCode::data, {"vocabulary"});
  words.emplace_back("pipeline.ranks=2");
  expect_end(start(2, "two", words), ExitCode::data, {"vocabulary"});
}

TEST_F(EmulatedErrors, SayWhyThereIsNoGpu) {
  for (const int processes : {1, 2})
    expect_end(start(processes, "run", {"pipeline.ranks=2"}, {"EMULATED_CUDA_DEVICES=0"}), ExitCode::config, {"no CUDA device"});
}

TEST_F(EmulatedErrors, SayWhatEachStageNeeds) {
  const Words words{"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=looped-bfs", "cuda.device=0"};
  expect_end(start(1, "run", words, {"EMULATED_CUDA_MEMORY=200000"}), ExitCode::memory,
             {"cuda:0", "the plan needs stage 0: ", ", stage 2: ", "workspace, batches and rings"});
}

/// The n-th kernel of each process fails, somewhere in a step after the second.
TEST_F(EmulatedErrors, AFailedKernelEndsTheRunWithAWholeCheckpoint) {
  for (const int processes : {1, 2}) {
    const std::string directory = "run" + std::to_string(processes);
    const auto job = start(processes, directory,
                           {"pipeline.ranks=" + std::to_string(processes), "checkpoint.every=1", "train.steps=40", "cuda.graphs=false"},
                           {"EMULATED_CUDA_FAIL_AFTER=2500"});
    expect_end(job, ExitCode::device, {"rank ", ", stage ", ", step ", ", microbatch ", "action ", "cudaErrorLaunchFailure"});
    EXPECT_TRUE(job.err.find("layers.") != std::string::npos || job.err.find("embed") != std::string::npos ||
                job.err.find("norm") != std::string::npos || job.err.find("loss") != std::string::npos)
        << "no operation is named in: " << job.err;
    const auto verified = run_job(1, {"ckpt", "verify", folder_ / directory});
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err << job.out;
  }
}

}  // namespace
}  // namespace millrace::tests
