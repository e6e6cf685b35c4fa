#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "runtime/engine/step_breakdown.hpp"
#include "runtime/io/fault.hpp"
#include "tests/training/examined_run.hpp"
#include "tests/training/expectations.hpp"
#include "tests/training/small_run.hpp"

// Properties that a pipeline in name only would not have: bytes on the links, weights on their ranks, time in the right places,
// writing concurrent with computing.
namespace millrace::tests {
namespace {

class Substance : public ::testing::Test {
 protected:
  Substance() { write_small_texts(folder_, "text"); }
  ~Substance() override {
    runtime::set_point_hook({});
    runtime::set_file_hook({});
  }
  [[nodiscard]] std::string data() const { return folder_ / "text"; }
  /// The line of the newest step.
  [[nodiscard]] nlohmann::json last_line(const std::string& run) const {
    std::ifstream stream(folder_ / (run + "/metrics.jsonl"));
    std::string line, last;
    while (std::getline(stream, line)) last = line;
    return nlohmann::json::parse(last);
  }
  TemporaryFolder folder_;
};

constexpr std::int64_t kElements = 2 * 32 * 32;  // of a boundary: rows, sequence, hidden

TEST_F(Substance, LinksCarryTwoBoundariesAMicrobatchAndEdge) {
  run_examined(data(), {}, [](actors::Pipeline& pipeline) {
    expect_boundary_traffic(pipeline, 3, kElements * 4);
    EXPECT_EQ(pipeline.ranks().front()->plan().channels().size(), 6U);
  });
  run_examined(data(), {"train.dtype=bf16"}, [](actors::Pipeline& pipeline) { expect_boundary_traffic(pipeline, 3, kElements * 2); });
}

TEST_F(Substance, RanksHoldTheirOwnStages) {
  run_examined(data(), {}, expect_own_parameters_alone);
  run_examined(data(), {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=looped-bfs"}, expect_own_parameters_alone);
}

TEST_F(Substance, WeightGradientsAreTheWeightMatmulsAndNoOtherMatmul) {
  run_examined(data(), {"pipeline.schedule=zb-h1", "pipeline.layout=E | t*2 | t*2 | H"}, [](actors::Pipeline& pipeline) {
    const auto& plan = pipeline.ranks().front()->plan();
    const auto set = plan.programs(runtime::StageId(1));
    double matrices = 0;
    for (const auto& spec : layers::parameters(plan.model, plan.layout[1]))
      if (spec.shape.rank() == 2) matrices += static_cast<double>(spec.shape.elements());
    double products = 0, others = 0;
    for (const auto& operation : set.program(runtime::ProgramKind::weight_gradient)) {
      EXPECT_TRUE(operation.rule->accumulates()) << operation.name;
      const double flops = runtime::cost(set, operation).flops;
      (operation.rule->name() == "linear_weight_gradient" ? products : others) += flops;
    }
    EXPECT_EQ(products, 2.0 * 64 * matrices);  // 64 tokens
    EXPECT_LT(others, 0.03 * products);        // the norms' scales
  });
}

using Records = std::vector<runtime::TraceRecord>;

/// The records of the last step, by rank, with one stage slowed down.
std::vector<Records> records_with(const std::string& fault, const std::string& data, const std::string& run) {
  std::vector<Records> records;
  runtime::set_faults(fault, 0);
  run_examined(data, {"pipeline.ranks=2", "run.directory=" + run}, [&](actors::Pipeline& pipeline) {
    for (auto* rank : pipeline.ranks()) records.push_back(rank->trace().snapshot());
  });
  runtime::set_faults("", 0);
  for (auto& rank : records) std::erase_if(rank, [](const auto& record) { return record.step != runtime::StepId(2); });
  return records;
}

/// When the neighbour had produced what this wait was for; 0 if it produced nothing of the kind.
std::int64_t made_at(const runtime::TraceRecord& wait, const Records& neighbour) {
  const auto kind = wait.reason == runtime::WaitReason::activation ? runtime::SpanKind::forward : runtime::SpanKind::backward;
  for (const auto& record : neighbour)
    if (record.kind == kind && record.microbatch == wait.microbatch) return record.end;
  return 0;
}

/// The part of a rank's waits for boundaries that is before the end of the pass that produced the boundary; `waits` counts them.
std::int64_t time_before_tokens_were_made(const Records& rank, const Records& neighbour, int& waits) {
  std::int64_t total = 0;
  for (const auto& record : rank) {
    const bool token = record.reason == runtime::WaitReason::activation || record.reason == runtime::WaitReason::gradient;
    if (record.kind != runtime::SpanKind::wait || !token) continue;
    const auto made = made_at(record, neighbour);
    EXPECT_GT(made, 0) << "a wait for a boundary that no rank makes";
    EXPECT_LE(made, record.end) << "the wait for a token ended before the token was made";
    total += std::clamp(made, record.begin, record.end) - record.begin;
    ++waits;
  }
  return total;
}

// How long each rank waits depends on the machine. What must hold is where the time is counted: the delay in the slow stage's
// passes, and the other rank's waits before the ends of those passes in its bubble.
TEST_F(Substance, ASlowStageIsTheOthersBubble) {
  constexpr std::int64_t sleep = 4 * 50'000'000LL;  // ns per step: four microbatches
  for (const std::size_t slow : {std::size_t{0}, std::size_t{1}}) {
    const std::string run = "run" + std::to_string(slow);
    const auto records = records_with("point=stage" + std::to_string(slow) + ".forward:delay=50", data(), folder_ / run);
    ASSERT_EQ(records.size(), 2U);
    const std::vector<runtime::StepBreakdown> shares{runtime::summarize(records[0], runtime::StepId(2)),
                                                     runtime::summarize(records[1], runtime::StepId(2))};
    EXPECT_GE(shares[slow].compute, sleep);
    int waits = 0;
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}})
      EXPECT_EQ(shares[rank].bubble, time_before_tokens_were_made(records[rank], records[1 - rank], waits)) << "rank " << rank;
    EXPECT_GT(waits, 0);
    const auto both = runtime::sum(shares);
    EXPECT_NEAR(last_line(run)["bubble"].get<double>(), both.share(both.bubble), 1e-6);
  }
}

// A checkpoint's shards are held back until the next step computes: if that step waited for them, both would wait forever.
TEST_F(Substance, TheCheckpointIsWrittenWhileTheNextStepComputes) {
  constexpr int ranks = 4, microbatches = 4, steps = 3;
  std::mutex mutex;
  std::condition_variable begun;
  int forwards = 0, shards = 0;
  runtime::set_point_hook([&](std::string_view name) {
    std::unique_lock lock(mutex);
    if (name == "stage0.forward") {
      ++forwards;
      begun.notify_all();
    }
    if (name != "checkpoint.after_shard") return;
    const int step = 1 + shards++ / ranks;
    if (step < steps) begun.wait(lock, [&] { return forwards > microbatches * step; });
  });
  run_examined(data(), {"checkpoint.every=1", "run.directory=" + folder_ / "run"}, [](actors::Pipeline& pipeline) {
    const auto writes = pipeline.checkpoint_trace().snapshot();
    EXPECT_EQ(writes.size(), static_cast<std::size_t>(ranks * steps));
    for (const auto& write : writes) EXPECT_EQ(write.kind, runtime::SpanKind::checkpoint_write);
  });
  EXPECT_EQ(shards, ranks * steps);
}

TEST_F(Substance, MetricsAreOnTheDiskBeforeTheirCheckpointIsCommitted) {
  // If a checkpoint's steps were missing in metrics.jsonl after a power failure, they would stay missing, since resuming does not
  // run them again.
  std::mutex mutex;
  int written = 0, synced = 0;
  std::vector<int> synced_at_commit;  // lines of metrics.jsonl, including its header
  runtime::set_file_hook([&](const runtime::FileCall& call) {
    const std::lock_guard lock(mutex);
    const bool metrics = call.path.ends_with("/metrics.jsonl");
    if (metrics && call.operation == runtime::FileOperation::write) ++written;
    if (metrics && call.operation == runtime::FileOperation::sync) synced = written;
    if (call.operation == runtime::FileOperation::rename && call.path.find("/checkpoints/step-") != std::string_view::npos &&
        call.path.find(".tmp-") != std::string_view::npos)
      synced_at_commit.push_back(synced);
    return runtime::FileFault::none;
  });
  run_examined(data(), {"checkpoint.every=1", "checkpoint.keep=4", "run.directory=" + folder_ / "run"}, [](actors::Pipeline&) {});
  runtime::set_file_hook({});
  ASSERT_EQ(synced_at_commit.size(), 3U);
  for (int step = 1; step <= 3; ++step) EXPECT_GE(synced_at_commit[static_cast<std::size_t>(step - 1)], 1 + step) << "step " << step;
}

}  // namespace
}  // namespace millrace::tests
