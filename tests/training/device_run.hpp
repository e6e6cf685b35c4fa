#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

namespace millrace::tests {

using Words = std::vector<std::string>;

/// The numbers of a finished run.
struct DeviceOutcome {
  int code = -1;
  std::string said;
  std::string hash;                                // of its newest checkpoint
  std::map<std::string, std::vector<double>> all;  // "loss" and "gradient_norm" of each step, "evaluation_loss" of each evaluation
};

/// Three steps of the smallest model on ranks with GPUs. A base class of such tests: a machine without a GPU skips them.
class DeviceRun : public ::testing::Test {
 protected:
  DeviceRun();
  void SetUp() override;
  /// `directory` is relative to the test's folder.
  [[nodiscard]] JobResult start(int processes, const std::string& directory, const Words& more = {}, const Words& environment = {}) const;
  [[nodiscard]] DeviceOutcome outcome(const JobResult& job, const std::string& directory) const;
  [[nodiscard]] DeviceOutcome train(int processes, const std::string& directory, const Words& more = {},
                                    const Words& environment = {}) const;

  TemporaryFolder folder_;
};

/// Whether the GPUs are emulated by tests/emulated_cuda, so that its environment variables have an effect.
[[nodiscard]] bool emulated();

}  // namespace millrace::tests
