#include <gtest/gtest.h>

#include "tests/training/command.hpp"
#include "tests/training/expert_models.hpp"
#include "tests/training/mesh.hpp"
#include "tests/training/small_run.hpp"

// All combinations of copies, pipelines and processes: takes minutes.
namespace millrace::tests {
namespace {

/// Appends the run and those that divide the update; and gradient sums and parameters, which the directions of a mirror cannot.
void add_divisions(std::vector<LayoutCase>& all, const MeshPipeline& pipeline, const LayoutCase& one) {
  all.push_back(one);
  all.push_back(divided(one));
  if (pipeline.directions > 1) return;
  all.push_back(divided_sums(one));
  all.push_back(divided_parameters(one, 1 + static_cast<int>(all.size()) % 2));
}

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  for (const auto& pipeline : mesh_pipelines()) {
    for (const bool tied : {false, true}) {
      for (const int copies : {2, 4}) {
        for (const int processes : {1, 2, 4})
          if (copies * pipeline.ranks % processes == 0) add_divisions(all, pipeline, mesh_run(pipeline, copies, processes, tied));
        add_divisions(all, pipeline, mesh_run(pipeline, copies, 1, tied, 8, "bf16"));
      }
    }
  }
  return all;
}

class EveryMesh : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(EveryMesh, HasTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, EveryMesh, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

using Words = std::vector<std::string>;
using NamedMeshes = std::vector<std::pair<const char*, Words>>;

/// Every mesh goes on from the checkpoint of every other, to the bits of a run of these keys that never changed.
void expect_to_resume_each_other(const NamedMeshes& meshes, const Words& keys) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  const auto train = [&](const std::string& name, const Words& mesh, const Words& more) {
    Words words = expert_run("mixtral", mesh);
    words.insert(words.begin(), {"train", "model.preset=tiny", "data.text=" + folder / "text", "train.batch=2", "train.sequence=32",
                                 "train.expert_accumulators=2", "train.threads=1", "train.steps=2", "run.directory=" + folder / name});
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_job(1, words);
  };
  const auto hash = [&](const std::string& name) { return run_job(1, {"ckpt", "hash", folder / name}).out; };
  ASSERT_EQ(train("whole", {}, {}).code, 0);
  for (const auto& [from, first] : meshes) {
    for (const auto& [to, second] : meshes) {
      const std::string name = std::string(from) + "_" + to;
      EXPECT_NE(train(name, first, {"checkpoint.every=1", "debug.fault=point=checkpoint.after_commit:hit=1:kill:rank=0"}).code, 0) << name;
      const auto end = train(name, second, {});
      EXPECT_EQ(end.code, 0) << name << end.out << end.err;
      EXPECT_NE(end.out.find("resumes after step 1"), std::string::npos) << name << end.out;
      EXPECT_EQ(hash(name), hash("whole")) << name;
    }
  }
}

TEST(EveryMesh, ResumesTheCheckpointsOfEveryOther) {
  const NamedMeshes meshes{
      {"one", {}},
      {"pipeline", {"pipeline.ranks=4", "pipeline.schedule=zb-h1"}},
      {"copies", {"mesh.data=2", "pipeline.ranks=2"}},
      {"divided", {"mesh.data=2", "mesh.shard=optimizer"}},
      {"divided_pipelines", {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=optimizer"}},
      {"owners", {"mesh.data=4", "mesh.expert=2", "mesh.shard=optimizer"}},
      {"gathered", {"mesh.data=2", "mesh.shard=parameters", "pipeline.chunks=4", "pipeline.schedule=looped-bfs"}},
      {"owners_of_pipelines", {"mesh.data=2", "mesh.expert=1", "mesh.shard=optimizer", "pipeline.ranks=2", "pipeline.schedule=zb-h1"}}};
  expect_to_resume_each_other(meshes, {});
}

TEST(EveryMesh, ResumesTheCheckpointsOfOthersWithItsLeaves) {
  const NamedMeshes meshes{{"one", {}},
                           {"pipeline", {"pipeline.ranks=2", "pipeline.schedule=zb-h1"}},
                           {"divided", {"mesh.data=2", "mesh.shard=gradients"}},
                           {"divided_pipelines", {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=gradients"}},
                           {"owners", {"mesh.data=4", "mesh.expert=2", "mesh.shard=gradients"}},
                           {"gathered", {"mesh.data=2", "mesh.shard=parameters"}},
                           {"gathered_owners", {"mesh.data=4", "mesh.expert=2", "mesh.shard=parameters", "pipeline.ranks=2"}}};
  expect_to_resume_each_other(meshes, {"train.leaf=microbatch", "train.accumulators=1"});
}

// Copies whose number is no power of two send several sums each.
TEST(EveryMesh, AlsoWithThreeCopies) {
  LayoutCase three = mesh_run(mesh_pipelines().front(), 3, 1, true, 6);
  three.numbers.microbatches = 12;
  expect_the_bits_of_one_rank(three);
  expect_the_bits_of_one_rank(divided(three));
  expect_the_bits_of_one_rank(divided_sums(three));
  expect_the_bits_of_one_rank(divided_parameters(three, 1));
}

// Tables and matrices of several hash chunks, which copies divide within, and reduce in several steps.
TEST(DividedUpdate, CutsLargeTensors) {
  expect_one_ranks_numbers({"model.vocab_size=20000", "model.hidden_size=256", "model.intermediate_size=10000", "model.layers=2",
                            "train.accumulators=4", "train.steps=3", "evaluate.every=0"},
                           {{2, {"mesh.data=2", "mesh.shard=optimizer"}}, {1, {"mesh.data=4", "mesh.shard=optimizer"}}});
}

TEST(DividedGradients, CutLargeTensors) {
  expect_one_ranks_numbers({"model.vocab_size=20000", "model.hidden_size=256", "model.intermediate_size=10000", "model.layers=2",
                            "train.leaf=microbatch", "train.steps=2", "evaluate.every=0"},
                           {{2, {"mesh.data=2", "mesh.shard=gradients"}}});
}

}  // namespace
}  // namespace millrace::tests
