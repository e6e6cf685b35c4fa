// What a profile says of the transfers between copies.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/stories.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

constexpr int steps = 2, rounds = 4;  // of microbatches

/// Bytes per step of all ranks, and transfers per step of a rank, by kind and stage of a copy; and the model's bytes.
struct Transfers {
  std::map<std::string, std::map<int, double>> bytes, count;
  double model = 0;
  std::string trace;
};

Transfers profile(const Words& more) {
  const TemporaryFolder folder;
  write_stories(folder, 200);
  const Words words{"profile",
                    "configs/runs/tiny.toml",
                    "data.text=" + folder / "text",
                    "data.held_out=0",
                    "train.threads=1",
                    "train.microbatches=8",
                    "pipeline.ranks=1",
                    "mesh.data=2",
                    "model.layers=4",
                    "pipeline.layout=E | t | t | t | t H",
                    "pipeline.chunks=5",
                    "pipeline.schedule=looped-bfs",
                    "--steps",
                    std::to_string(steps),
                    "--out",
                    folder / "profile"};
  const auto result = run_millrace(joined(words, more), on_processes(2));
  EXPECT_EQ(result.code, 0) << result.err;
  Transfers transfers;
  if (result.code != 0) return transfers;
  EXPECT_EQ(run_millrace({"profile", "--check", folder / "profile"}).code, 0);
  const auto json = nlohmann::json::parse(read_file(folder / "profile/profile.json"));
  for (const auto& each : json.at("transfers")) {
    const auto kind = each.at("kind").get<std::string>();
    const int stage = each.at("stage").get<int>() % 5;
    transfers.bytes[kind][stage] += each.at("bytes").get<double>() / steps;
    transfers.count[kind][stage] += each.at("count").get<double>() / steps / 2;
    EXPECT_GT(each.at("under_way_ms").get<double>(), 0);
  }
  transfers.model = 4 * json.at("run").at("parameters").get<double>();
  transfers.trace = read_file(folder / "profile/trace.json");
  expect_parts(result.out, {"\ntransfers between replicas\n", " gather ", " reduction "});
  return transfers;
}

double sum(const std::map<int, double>& by_stage) {
  double all = 0;
  for (const auto& [stage, bytes] : by_stage) all += bytes;
  return all;
}

// There are two copies. In a reduction each sends the gradients that the other owns; in a gather, the parameters that it owns itself.
TEST(Transfers, OfADividedUpdateAreEachOnce) {
  const Transfers found = profile({"mesh.shard=optimizer", "train.accumulators=2"});
  EXPECT_EQ(sum(found.bytes.at("reduction")), found.model);
  EXPECT_EQ(sum(found.bytes.at("gather")), found.model);
}

TEST(Transfers, OfDividedGradientsAreOnceForEachRound) {
  const Transfers found = profile({"mesh.shard=gradients", "train.leaf=microbatch"});
  EXPECT_EQ(sum(found.bytes.at("reduction")), rounds * found.model);
  EXPECT_EQ(sum(found.bytes.at("gather")), found.model);
}

// Two slots: what the list comes back to after another stage had the slot is gathered again.
TEST(Transfers, OfDividedParametersAreOnceForEachResidence) {
  Transfers found = profile({"mesh.shard=parameters", "train.leaf=microbatch"});
  EXPECT_EQ(sum(found.bytes.at("reduction")), rounds * found.model);
  const std::map<int, double> residences{{0, 2}, {1, 2}, {2, 2}, {3, 1}, {4, 1}};
  double once = 0;
  for (auto& [stage, count] : found.count["gather"]) {
    EXPECT_EQ(count, residences.at(stage)) << stage;
    once += found.bytes["gather"][stage] / count;
  }
  EXPECT_EQ(once, found.model);
  EXPECT_NE(found.trace.find("\"gather stage 1\""), std::string::npos);
  EXPECT_NE(found.trace.find("\"reduce stage 4\""), std::string::npos);
}

// Parameters go out as programs read them.
TEST(Transfers, OfDividedParametersAreInBf16) {
  Transfers found = profile({"mesh.shard=parameters", "train.leaf=microbatch", "train.dtype=bf16", "mesh.weight_slots=5"});
  EXPECT_EQ(sum(found.count["gather"]), 5) << "each stage once";
  EXPECT_LT(sum(found.bytes["gather"]), 0.52 * found.model);
  EXPECT_GE(sum(found.bytes["gather"]), 0.5 * found.model);
}

}  // namespace
}  // namespace millrace::tests
