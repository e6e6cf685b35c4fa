#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// Records what the coordinator requested; time only advances when the test advances it.
class RecordingPort : public CoordinatorPort {
 public:
  void to_ranks(const ToRank& message) override { sent.push_back(message); }
  void ready(std::uint64_t bytes) override { planned_bytes = bytes; }
  CheckpointAttempt begin_checkpoint(std::int64_t step) override {
    if (no_room) return {{}, "no room"};
    return {"folder-" + std::to_string(step), {}};
  }
  void commit_checkpoint(std::int64_t step, std::vector<std::string> reports) override { commits.emplace_back(step, reports.size()); }
  void discard_checkpoint(std::int64_t step, const std::string&) override { discards.push_back(step); }
  void step_done(const StepRecord& record) override { records.push_back(record); }
  void evaluated(const EvaluationRecord& record) override {
    evaluations.emplace_back(record.step, record.loss);
    evaluation_terms = record.terms;
  }
  void sampled(const std::vector<std::int32_t>& tokens) override { sample = tokens; }
  bool stop_requested() override { return stop; }
  std::int64_t now() override { return time; }
  void finished(ExitCode code, const std::string& message) override {
    ended = code;
    end_message = message;
  }

  template <class T>
  [[nodiscard]] bool last_is() const {
    return !sent.empty() && std::holds_alternative<T>(sent.back());
  }
  template <class T>
  [[nodiscard]] std::size_t count() const {
    std::size_t n = 0;
    for (const auto& message : sent) n += std::holds_alternative<T>(message) ? 1 : 0;
    return n;
  }

  std::vector<ToRank> sent;
  std::vector<std::pair<std::int64_t, std::size_t>> commits;
  std::vector<std::int64_t> discards;
  std::vector<StepRecord> records;
  std::vector<std::pair<std::int64_t, double>> evaluations;
  std::vector<runtime::StepLoss::Named> evaluation_terms;
  std::vector<std::int32_t> sample;
  bool stop = false, no_room = false;
  std::uint64_t planned_bytes = 0;
  std::int64_t time = 0;
  std::optional<ExitCode> ended;
  std::string end_message;
};

/// The report of a stage whose only term is the language model's loss.
inline std::vector<runtime::LossTermSums> lm_loss(std::vector<double> sums, int stage = 1) {
  return {{stage, {.name = "lm_loss"}, std::move(sums)}};
}

/// A report's values of step_metrics.
inline std::vector<double> metrics(double bubble, double wait, double data, double resident_bytes) {
  std::vector<double> values(step_metrics.size());
  values[metric_index("bubble")] = bubble;
  values[metric_index("wait")] = wait;
  values[metric_index("data")] = data;
  values[metric_index("resident_bytes")] = resident_bytes;
  return values;
}

inline CoordinatorSetup two_ranks(std::int64_t steps) {
  CoordinatorSetup setup;
  setup.ranks = 2;
  setup.model_stages = 2;
  setup.train.steps = steps;
  setup.train.clip = 1.0;
  setup.train.sequence = 4;
  setup.tensors = {"a", "b", "c"};
  setup.valid_targets = [](std::int64_t) { return std::int64_t{10}; };
  setup.learning_rate = [](std::int64_t step) { return 0.1 * static_cast<double>(step + 1); };
  return setup;
}

inline void answer_step(Coordinator& coordinator, std::int64_t step, double square = 4.0) {
  StepReport first{0, step, {{0, 1.0}, {2, square}}, {}, {}};
  StepReport second{1, step, {{1, 4.0}}, lm_loss({12.0, 8.0}), {}};
  coordinator.receive(first);
  coordinator.receive(second);
}

inline void answer_optimize(Coordinator& coordinator, std::int64_t step) {
  coordinator.receive(Optimized{0, step});
  coordinator.receive(Optimized{1, step});
}

}  // namespace millrace::actors
