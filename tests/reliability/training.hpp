#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reliability/job.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The smallest model with latent attention and routers whose biases move.
inline const std::vector<std::string> deepseek{"model.family=deepseek_v3",  "model.experts=4",
                                               "model.experts_per_token=2", "model.moe_intermediate_size=24",
                                               "model.shared_experts=1",    "model.first_dense_layers=1",
                                               "model.kv_heads=4",          "model.q_lora_rank=12",
                                               "model.kv_lora_rank=10",     "model.qk_nope_head_dim=6",
                                               "model.qk_rope_head_dim=4",  "model.v_head_dim=5"};

inline std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// The results of a finished run that must be the same however often it was interrupted.
struct TrainingResult {
  std::string hash;     // of the last checkpoint
  std::string metrics;  // without the wall times
  friend bool operator==(const TrainingResult&, const TrainingResult&) = default;
};

/// A training of the smallest model on its own text: 40 steps on four ranks, with a checkpoint every 5 steps and an evaluation
/// every 10.
class Training {
 public:
  static constexpr int steps = 40;
  static constexpr auto patience = Job::Seconds(120);  // a run that takes longer than this hangs, however busy the machine is

  /// `recipe`: further keys of every run, key=value.
  explicit Training(std::vector<std::string> recipe = {});
  /// The arguments of the command. `more` are key=value and take precedence.
  [[nodiscard]] std::vector<std::string> words(const std::string& directory, const std::vector<std::string>& more = {}) const;
  /// Runs the command to its end; a hang is a test failure with code -1.
  [[nodiscard]] JobEnd run(int processes, const std::string& directory, const std::vector<std::string>& more = {},
                           const std::vector<std::string>& environment = {}) const;
  [[nodiscard]] TrainingResult result(const std::string& directory) const;
  /// The results of an undisturbed run, computed once.
  [[nodiscard]] const TrainingResult& undisturbed();
  [[nodiscard]] std::string path(const std::string& directory) const { return folder_ / directory; }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> recipe_;
  std::optional<TrainingResult> undisturbed_;
};

}  // namespace millrace::tests
