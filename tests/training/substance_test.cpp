#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/engine/step_shares.hpp"
#include "runtime/io/fault.hpp"
#include "tests/training/examined_run.hpp"
#include "tests/training/expectations.hpp"
#include "tests/training/small_run.hpp"

// What a pipeline that only pretends would not show: bytes on the links, weights where they belong, time where it is spent, writing beside
// computing.
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
  /// The newest step's line.
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

/// Where the time of the last step went, by rank, with one stage slowed.
std::vector<runtime::StepShares> shares_with(const std::string& fault, const std::string& data, const std::string& run) {
  std::vector<runtime::StepShares> shares;
  runtime::set_faults(fault, 0);
  run_examined(data, {"pipeline.ranks=2", "run.directory=" + run}, [&](actors::Pipeline& pipeline) {
    for (auto* rank : pipeline.ranks()) shares.push_back(runtime::summarize(rank->trace().snapshot(), runtime::StepId(2)));
  });
  runtime::set_faults("", 0);
  return shares;
}

TEST_F(Substance, ASlowStageMovesTheShares) {
  constexpr std::int64_t sleep = 4 * 50'000'000LL;  // ns of a step: four microbatches
  for (const std::size_t slow : {std::size_t{0}, std::size_t{1}}) {
    const std::string run = "run" + std::to_string(slow);
    const auto shares = shares_with("point=stage" + std::to_string(slow) + ".forward:delay=50", data(), folder_ / run);
    ASSERT_EQ(shares.size(), 2U);
    const auto& lame = shares[slow];
    const auto& other = shares[1 - slow];
    EXPECT_GE(lame.compute, sleep);
    EXPECT_GT(other.bubble, sleep / 2);
    EXPECT_GT(other.bubble, 2 * lame.bubble);
    const auto both = runtime::sum(shares);
    EXPECT_NEAR(last_line(run)["bubble"].get<double>(), both.share(both.bubble), 1e-6);
  }
}

TEST_F(Substance, TheCheckpointIsWrittenWhileTheNextStepComputes) {
  runtime::set_file_hook([](const runtime::FileCall& call) {
    if (call.operation == runtime::FileOperation::write && call.path.find("checkpoints") != std::string_view::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
    return runtime::FileFault::none;
  });
  run_examined(data(), {"checkpoint.every=1", "run.directory=" + folder_ / "run"}, [](actors::Pipeline& pipeline) {
    int writes = 0, beside = 0;
    for (const auto& write : pipeline.checkpoint_trace().snapshot()) {
      EXPECT_EQ(write.kind, runtime::SpanKind::checkpoint_write);
      ++writes;
      for (auto* rank : pipeline.ranks()) {
        for (const auto& record : rank->trace().snapshot()) {
          const bool computes = record.kind == runtime::SpanKind::forward || record.kind == runtime::SpanKind::backward;
          if (computes && record.begin >= write.begin && record.end <= write.end) ++beside;
        }
      }
    }
    EXPECT_GE(writes, 4);
    EXPECT_GT(beside, 0);
  });
}

}  // namespace
}  // namespace millrace::tests
