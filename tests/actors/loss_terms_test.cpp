#include <gtest/gtest.h>

#include <chrono>

#include "actors/coordinator.hpp"
#include "actors/telemetry/run_reporter.hpp"
#include "cluster/host/console.hpp"
#include "runtime/io/file_system.hpp"
#include "tests/actors/rank_control_bench.hpp"
#include "tests/layers/activity_family.hpp"
#include "tests/support/temporary_folder.hpp"

// A loss with a term in every decoder layer, from the ranks' programs through the coordinator to the step's line and metrics.jsonl.
namespace millrace::actors {
namespace {

/// Passes the coordinator's orders on to the ranks of a bench and its records to a reporter.
class BenchPort final : public CoordinatorPort {
 public:
  BenchPort(Bench& bench, RunReporter& reporter) : bench_(bench), reporter_(reporter) {}
  void to_ranks(const ToRank& message) override { orders.push_back(message); }
  void ready(std::uint64_t) override {}
  CheckpointAttempt begin_checkpoint(std::int64_t) override { return {{}, "checkpoints are not written here"}; }
  void commit_checkpoint(std::int64_t, std::vector<std::string>) override {}
  void discard_checkpoint(std::int64_t, const std::string&) override {}
  void step_done(const StepRecord& record) override {
    records.push_back(record);
    reporter_.step(record);
  }
  void evaluated(const EvaluationRecord& record) override {
    evaluations.push_back(record);
    reporter_.evaluation(record, false);
  }
  void sampled(const std::vector<std::int32_t>&) override {}
  bool stop_requested() override { return false; }
  std::int64_t now() override { return ++time_ * 1'000'000; }
  void finished(ExitCode code, const std::string& message) override { EXPECT_EQ(code, ExitCode::ok) << message; }

  /// Runs until there are no more orders.
  void run(Coordinator& coordinator) {
    bench_.begin();
    for (;;) {
      for (auto& seat : bench_.seats)
        for (const auto& report : std::exchange(seat->reports, {})) coordinator.receive(report);
      if (orders.empty()) return;
      const ToRank order = orders.front();
      orders.pop_front();
      bench_.tell(order);
    }
  }

  std::deque<ToRank> orders;
  std::vector<StepRecord> records;
  std::vector<EvaluationRecord> evaluations;

 private:
  Bench& bench_;
  RunReporter& reporter_;
  std::int64_t time_ = 0;
};

struct Outcome {
  std::string line, metrics;  // of the last step
  std::vector<double> numbers;
};

Outcome train(BenchOptions options) {
  layers::testing::add_to_families<layers::testing::ActivityFamily>();
  options.family = options.family == "llama" ? "activity" : options.family;
  options.layers = 6;
  Bench bench(options);
  const tests::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  runtime::MetricsFile metrics(path);
  RunReporter reporter({}, &metrics);
  CoordinatorSetup setup;
  setup.ranks = options.ranks;
  setup.model_stages = bench.plan.schedule.placement.model_stages();
  setup.train.steps = 2;
  setup.train.microbatches = options.microbatches;
  setup.evaluate.every = 2;
  setup.evaluation_microbatches = 3;
  setup.evaluation_targets = 21;
  for (const auto& parameter : bench.plan.parameters) setup.tensors.push_back(parameter.name);
  setup.valid_targets = [&](std::int64_t) { return options.targets; };
  setup.learning_rate = [](std::int64_t) { return 0.01; };
  BenchPort port(bench, reporter);
  Coordinator coordinator(setup, port);
  ::testing::internal::CaptureStdout();
  port.run(coordinator);
  EXPECT_TRUE(cluster::drain_console(std::chrono::seconds(60)));
  Outcome outcome;
  outcome.line = ::testing::internal::GetCapturedStdout();
  outcome.metrics = runtime::read_text_file(path, 1 << 20, ExitCode::data);
  for (const auto& record : port.records) {
    outcome.numbers.insert(outcome.numbers.end(), {record.loss, record.gradient_norm});
    for (const auto& term : record.terms) outcome.numbers.push_back(term.value);
  }
  for (const auto& record : port.evaluations) {
    outcome.numbers.push_back(record.loss);
    for (const auto& term : record.terms) outcome.numbers.push_back(term.value);
  }
  return outcome;
}

TEST(LossTerms, HaveTheSameBitsInEveryPipeline) {
  const Outcome one = train({.schedule = "gpipe", .ranks = 1, .microbatches = 4});
  ASSERT_EQ(one.numbers.size(), 2 * 4U + 3U) << "loss, norm and two terms of each step; loss and two terms of an evaluation";
  EXPECT_NEAR(one.numbers[0], one.numbers[2] + one.numbers[3], 1e-12);
  EXPECT_EQ(one.numbers[8], one.numbers[10]) << "an auxiliary term is not part of an evaluation's loss";
  for (const int ranks : {2, 4}) {
    for (const auto* schedule : {"gpipe", "1f1b", "zb-v"}) {
      const std::int64_t chunks = std::string(schedule) == "zb-v" ? 2 : 1;
      const Outcome found = train({.schedule = schedule, .ranks = ranks, .microbatches = 8, .chunks = chunks});
      const Outcome alone = train({.schedule = "gpipe", .ranks = 1, .microbatches = 8});
      EXPECT_EQ(found.numbers, alone.numbers) << schedule << ", " << ranks << " ranks";
    }
  }
  EXPECT_EQ(train({.schedule = "zb-v", .ranks = 1, .microbatches = 4, .chunks = 2}).numbers, one.numbers);
}

TEST(LossTerms, OfTwoReplicasAreAddedInTheOrderOfMicrobatches) {
  const Outcome replicas = train({.schedule = "dualpipe", .ranks = 2, .microbatches = 4});
  const Outcome alone = train({.schedule = "gpipe", .ranks = 1, .microbatches = 4, .accumulators = 2});
  EXPECT_EQ(replicas.numbers, alone.numbers);
}

TEST(LossTerms, AreShownByNameWhereThereAreSeveral) {
  const Outcome both = train({.schedule = "1f1b", .ranks = 2, .microbatches = 4});
  EXPECT_NE(both.line.find(" | lm_loss "), std::string::npos) << both.line;
  EXPECT_NE(both.line.find(" | activity_loss "), std::string::npos) << both.line;
  for (const char* field : {"\"lm_loss\":", "\"activity_loss\":", "\"activity_loss_hex\":", "\"evaluation_activity_loss\":"})
    EXPECT_NE(both.metrics.find(field), std::string::npos) << field << "\n" << both.metrics;
}

}  // namespace
}  // namespace millrace::actors
