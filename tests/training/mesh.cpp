#include "tests/training/mesh.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/training/small_run.hpp"

namespace millrace::tests {

const std::vector<MeshPipeline>& mesh_pipelines() {
  static const std::vector<MeshPipeline> all{
      {"alone", 1, 1, {"pipeline.ranks=1"}},
      {"chunks", 1, 1, {"pipeline.ranks=1", "pipeline.chunks=2", "pipeline.schedule=zb-v"}},
      {"1f1b", 2, 1, {"pipeline.ranks=2"}},
      {"zb_v", 2, 1, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}},
      {"dualpipe", 2, 2, {"pipeline.ranks=2", "pipeline.schedule=dualpipe"}},
  };
  return all;
}

LayoutCase mesh_run(const MeshPipeline& pipeline, int copies, int processes, bool tied, int accumulators, const std::string& dtype) {
  Numbers numbers{dtype, tied};
  numbers.accumulators = accumulators == 0 ? copies * pipeline.directions : accumulators;
  numbers.microbatches = 16;
  numbers.steps = 6;
  auto words = pipeline.words;
  words.push_back(fmt::format("mesh.data={}", copies));
  return {numbers, {fmt::format("{}_copies_of_{}_in_{}", copies, pipeline.name, processes), processes, std::move(words)}};
}

LayoutCase divided(LayoutCase one) {
  one.layout.name += "_divided";
  one.layout.words.emplace_back("mesh.shard=optimizer");
  return one;
}

LayoutCase divided_sums(LayoutCase one) {
  one.numbers.accumulators = 1;
  one.numbers.leaves = true;
  one.layout.name += "_divided_sums";
  one.layout.words.emplace_back("mesh.shard=gradients");
  return one;
}

LayoutCase divided_parameters(LayoutCase one, int slots) {
  one.numbers.accumulators = 1;
  one.numbers.leaves = true;
  one.layout.name += fmt::format("_divided_parameters_{}", slots);
  one.layout.words.insert(one.layout.words.end(), {"mesh.shard=parameters", fmt::format("mesh.weight_slots={}", slots)});
  return one;
}

void expect_one_ranks_numbers(const std::vector<std::string>& keys, const std::vector<OtherMesh>& meshes) {
  const Outcome one = run_small(1, keys);
  ASSERT_EQ(one.code, 0) << one.said;
  for (const auto& [processes, words] : meshes) {
    std::vector<std::string> all = keys;
    all.insert(all.end(), words.begin(), words.end());
    const Outcome found = run_small(processes, all);
    EXPECT_EQ(found.code, 0) << found.said;
    EXPECT_EQ(found.lines, one.lines) << words.front();
    EXPECT_EQ(found.hash, one.hash) << words.front();
  }
}

}  // namespace millrace::tests
