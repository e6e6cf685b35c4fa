#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "actors/rank/rank.hpp"
#include "configs/load.hpp"
#include "kernels/base/check.hpp"
#include "tests/support/made_up_host.hpp"
#include "tests/support/paths.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

constexpr const char* tiny_run = "configs/runs/tiny.toml";

/// tiny.toml can be inspected without data: the folder does not exist.
Words inspect(const Words& more) { return joined({"inspect", tiny_run, "data.text=/no/such/folder", "train.threads=1"}, more); }

TEST(Inspect, OverviewHasEveryStageAndChannel) {
  const auto result = run_millrace(inspect({"pipeline.ranks=2", "pipeline.schedule=zb-h1"}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"2 ranks x 1 chunk, schedule zb-h1, layout E t*2 | t*2 H", "F GFLOP", "stash F..I", "activation", "gradient",
                            "peak bytes", "model FLOPs", "of the ranks' time"});
}

// The sum for one process is what `train` without a launcher compares with the memory that is free; a process for each rank needs more.
TEST(Inspect, SaysWhichMemoryItCounts) {
  const Words words{"pipeline.ranks=4", "run.directory=", "evaluate.every=0", "data.held_out=0", "sample.tokens=0"};
  const MadeUpHost host;
  host.stand_in("/job");
  host.write("/sys/fs/cgroup/job/memory.max", "1048576\n");
  host.write("/sys/fs/cgroup/job/memory.current", "0\n");
  const auto inspected = run_millrace(inspect(words), host.variable());
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  expect_parts(inspected.out, {"peak bytes are those of a process for each rank (mpirun -np 4)", " under mpirun -np 4, "});
  const auto number = [](const std::string& text, const std::string& before, const std::string& after) {
    const auto begin = text.find(before) + before.size();
    return text.substr(begin, text.find(after, begin) - begin);
  };
  const std::string one = number(inspected.out, "\nmemory ", " of this host for all 4 ranks in one process");
  const std::string four = number(inspected.out, " in one process, ", " under mpirun");
  const auto trained = run_millrace(
      joined({"train", tiny_run, "data.text=docs", "train.threads=1", "train.steps=2", "train.warmup_steps=1"}, words), host.variable());
  EXPECT_EQ(number(trained.err, "4 ranks need ", " together"), one) << trained.err;
  EXPECT_GT(std::stod(four), std::stod(one));
  const auto whole =
      run_millrace(joined({"train", tiny_run, "data.text=docs", "train.threads=1", "train.steps=2", "train.warmup_steps=1"}, words));
  EXPECT_EQ(number(whole.out, "memory    planned: ", " on the rank with the most"),
            number(inspected.out, "the rank with the most has ", "\n"))
      << whole.out;
}

TEST(Inspect, ShowsHowEachGroupIsUpdated) {
  const Words groups{"train.groups=[\"q_proj\", \"norm\"]", "train.group_rates=[2, 0.5]"};
  const auto adamw = run_millrace(inspect(joined(groups, {"train.group_weight_decays=[-1, 0.25]", "train.weight_decay=0.125"})));
  expect_parts(adamw.out, {"optimizer adamw\n", "  group \"q_proj\": 4 tensors (4096), weight decay 0.125, learning rate x 2\n",
                           "  group \"norm\": 9 tensors (288), weight decay 0.25, learning rate x 0.5\n", "  no group: 26 tensors ("});
  const auto muon = run_millrace(inspect(joined(groups, {"train.optimizer=muon", "train.muon_weight_decay=0.375",
                                                         "train.weight_decay=0.125", "train.trainable=[\"proj\", \"norm\", \"embed\"]"})));
  expect_parts(muon.out,
               {"  group \"q_proj\", matrices: 4 tensors (4096), weight decay 0.375, learning rate x 2\n",
                "  group \"norm\", others: 9 tensors (288), no weight decay, learning rate x 0.5\n", "  no group, matrices: 24 tensors (",
                "  no group, others: 1 tensor (8224), weight decay 0.125, learning rate x 1\n", "  not trained: 1 tensor (8224)\n"});
}

/// The column "shard" of a stage's row: bytes.
std::size_t shard_of(const std::string& out, int stage) {
  std::istringstream lines(out.substr(out.find("stash F..I")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int index = -1, rank = -1;
    std::string bytes, word;
    if (!(words >> index >> rank) || index != stage) continue;
    while (words >> word && word != "B") bytes = word;
    return std::stoul(bytes);
  }
  ADD_FAILURE() << "no row of stage " << stage << " in " << out;
  return 0;
}

// Stages 0 and 3 share rank 0. A tied table lies in the embedding's shard: the head's has only a gradient sum for it.
TEST(Inspect, AStagesShardHasItsPartOfTheRanksMemory) {
  std::vector<std::size_t> heads;
  for (const std::string tied : {"false", "true"}) {
    configs::LoadRequest request;
    request.files = {source_path(tiny_run)};
    request.overrides = {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v", "train.threads=1",
                         "model.tie_word_embeddings=" + tied};
    const auto result = run_millrace(inspect(request.overrides));
    ASSERT_EQ(result.code, 0) << result.err;
    const auto config = configs::load(request).config;
    const auto plan = actors::make_plan({config.model, config.train, config.pipeline, config.rematerialize});
    const std::size_t table = kernels::align_up(static_cast<std::size_t>(plan.parameters.front().shape.elements()) * sizeof(float));
    const auto of_shard = [](const runtime::MemorySection& section) {
      const std::set<std::string_view> names{"master", "copy", "state", "accumulator", "staging", "square"};
      return names.contains(to_string(section.kind));
    };
    for (const int rank : {0, 1}) {
      actors::RankResources needs;
      needs.staging = !config.directory.empty();
      const auto compute = actors::RankBlueprint(plan, runtime::RankId(rank), needs).build(true);
      std::map<int, std::size_t> bytes;
      for (const auto& section : compute->memory_plan().sections())
        if (of_shard(section) && section.stage != runtime::no_stage) bytes[section.stage.value] += section.bytes();
      EXPECT_EQ(bytes.size(), 2U);
      for (const auto& [stage, expected] : bytes) EXPECT_EQ(shard_of(result.out, stage), expected) << stage;
      if (rank == 0) heads.push_back(compute->memory_plan().find(runtime::MemoryKind::master, runtime::StageId(3))->bytes());
    }
    if (tied == "true") {
      EXPECT_EQ(heads.at(0) - heads.at(1), table);
    }
  }
}

TEST(Inspect, AStageShowsItsProgramsPlacesAndPeak) {
  const auto result = run_millrace(inspect({"--stage", "0"}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"forward: ", "backward: ", "layers.0.self_attn.q_proj", "query_proj", "stash_input+", "workspace+", "[256, ",
                            " flop", "memory of rank 0", "master", "state", "peak of rank 0: "});
  EXPECT_EQ(result.out.find("input_gradient: "), std::string::npos);
}

TEST(Inspect, ASplitScheduleShowsThreePrograms) {
  const auto result = run_millrace(inspect({"--stage", "1", "pipeline.ranks=2", "pipeline.schedule=zb-h1"}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"forward: ", "input_gradient: ", "weight_gradient: ", "stash_weight+", "handoff+", "ring             ch"});
}

TEST(Inspect, AProgramThatTheScheduleDoesNotRunIsShownWithItsSource) {
  const auto result = run_millrace(inspect({"--stage", "0", "--program", "weight_gradient"}));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"schedule 1f1b does not run this program", "weight_gradient: "});
  EXPECT_EQ(result.out.find("\nforward: "), std::string::npos);
}

/// The number of bytes after "peak of rank 0: ".
long peak_of(const Words& words) {
  const auto result = run_millrace(words);
  const std::string head = "peak of rank 0: ";
  const auto place = result.out.find(head);
  EXPECT_NE(place, std::string::npos) << result.err;
  return place == std::string::npos ? 0 : std::stol(result.out.substr(place + head.size()));
}

TEST(Inspect, RecomputingLowersThePeak) {
  EXPECT_LT(peak_of(inspect({"--stage", "0", "rematerialize.policy=full"})), peak_of(inspect({"--stage", "0"})));
}

TEST(Inspect, TheMemoryIsThatOfTheRankThatRuns) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    configs::LoadRequest request;
    request.files = {source_path(tiny_run)};
    request.overrides = {"pipeline.ranks=2", std::string("pipeline.schedule=") + schedule, "train.threads=1",
                         "model.tie_word_embeddings=true", "sample.tokens=3"};
    const auto config = configs::load(request).config;
    const auto plan = actors::make_plan({config.model, config.train, config.pipeline, config.rematerialize});
    for (int rank = 0; rank < 2; ++rank) {
      actors::RankSetup options;
      options.id = runtime::RankId(rank);
      options.needs.evaluation_microbatches = config.evaluate.batches;
      options.needs.staging = true;
      options.needs.logits = true;
      const actors::Rank real(plan, options);
      const auto result = run_millrace(joined({"inspect", tiny_run, "--stage", std::to_string(rank)}, request.overrides));
      ASSERT_EQ(result.code, 0) << result.err;
      expect_parts(result.out, {real.compute().memory().plan().print(),
                                "peak of rank " + std::to_string(rank) + ": " + std::to_string(real.planned_bytes()) + " bytes"});
    }
  }
}

}  // namespace
}  // namespace millrace::tests
