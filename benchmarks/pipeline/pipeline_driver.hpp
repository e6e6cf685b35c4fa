#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "actors/pipeline.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/setup/session.hpp"

namespace millrace::benchmarks {

/// The command-line settings of the programs in this folder: `name=value` words in any order.
struct PipelineArguments {
  std::int64_t layers = 8, hidden = 512, mlp = 1408, heads = 8, kv_heads = 4, vocabulary = 8192;  // bench-32m
  std::int64_t rows = 4, sequence = 512, microbatches = 1, ranks = 1, threads = 2, steps = 10;
  std::int64_t experts = 0, experts_per_token = 2;  // 0: every layer has one MLP
  std::int64_t expert = 1, data = 0;                // ranks that share the experts of a layer; copies, 0: as many
  double capacity = 0;                              // experts.capacity
  std::string shard = "none", leaf = "part";        // mesh.shard, train.leaf
  std::string dtype = "fp32", schedule = "1f1b";

  /// Throws Error(usage) for an unknown word.
  static PipelineArguments parse(int count, char** words, PipelineArguments defaults);
  static PipelineArguments parse(int count, char** words) { return parse(count, words, PipelineArguments()); }
  [[nodiscard]] std::int64_t copies() const { return data > 0 ? data : expert; }
  [[nodiscard]] actors::PlanRequest request() const;
  [[nodiscard]] std::string text() const;
};

/// main() of the programs in this folder: prints an error and returns its exit code.
int run_benchmark(int (*run)(int count, char** words), int count, char** words);

/// Tokens that are a function of (step, microbatch); the target of each is the next token.
class RandomTokens : public actors::BatchProvider {
 public:
  RandomTokens(std::int64_t vocabulary, std::int64_t sequence, std::int64_t tokens_per_step)
      : vocabulary_(vocabulary), sequence_(sequence), tokens_per_step_(tokens_per_step) {}
  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override;
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return tokens_per_step_; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }

 private:
  std::int64_t vocabulary_, sequence_, tokens_per_step_;
};

/// The actors of a whole pipeline in this process, driven one step at a time. In place of the coordinator there is an actor that
/// sums the ranks' reports and waits for the request of the next step.
class PipelineDriver {
 public:
  struct Step {
    double loss = 0, norm = 0, seconds = 0;  // mean over targets; before clipping; from the order to the last Optimized
  };

  explicit PipelineDriver(const PipelineArguments& arguments);
  /// Stops the actors.
  ~PipelineDriver();
  PipelineDriver(const PipelineDriver&) = delete;
  PipelineDriver& operator=(const PipelineDriver&) = delete;

  /// Blocks until all ranks have updated. Throws Error(internal) with the report of a rank that failed.
  Step step(double learning_rate, double clip);

  [[nodiscard]] const actors::PipelinePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const RandomTokens& batches() const noexcept { return batches_; }
  [[nodiscard]] std::vector<actors::Rank*> ranks() const { return pipeline_->ranks(); }
  [[nodiscard]] actors::Session& session() noexcept { return session_; }
  [[nodiscard]] const actors::Pipeline& pipeline() const noexcept { return *pipeline_; }
  /// The cores to which rank 0's team is pinned.
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }

  static constexpr std::uint64_t seed = 1;

 private:
  class Conductor;
  actors::Session session_;
  actors::PipelinePlan plan_;
  int ranks_;  // of all copies
  RandomTokens batches_;
  std::vector<int> cores_;
  std::unique_ptr<actors::Pipeline> pipeline_;
  std::function<void(const actors::ToRank&)> to_ranks_;
  std::int64_t next_ = 0;
  // shared by the conductor's thread and the caller
  std::mutex mutex_;
  std::condition_variable changed_;
  int ready_ = 0, optimized_ = 0, reported_ = 0;
  double loss_ = 0, norm_ = 0, rate_ = 0, clip_ = 0;
  std::vector<double> square_by_tensor_;
  std::string failure_;
};

}  // namespace millrace::benchmarks
