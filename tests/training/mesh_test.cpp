#include "tests/training/mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/command.hpp"
#include "tests/training/expert_models.hpp"
#include "tests/training/small_run.hpp"

// Copies of a pipeline that train together have the bits of one rank with as many gradient sums. A sample is here, all combinations are in
// mesh_full_test.cpp.
namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

const MeshPipeline& pipeline(const std::string& name) { return *std::ranges::find(mesh_pipelines(), name, &MeshPipeline::name); }

std::vector<LayoutCase> cases() {
  return {mesh_run(pipeline("alone"), 2, 1, false),
          mesh_run(pipeline("alone"), 4, 2, true),
          mesh_run(pipeline("1f1b"), 2, 4, true),
          mesh_run(pipeline("1f1b"), 2, 1, true, 8),
          mesh_run(pipeline("zb_v"), 4, 1, true),
          mesh_run(pipeline("dualpipe"), 2, 2, true),
          mesh_run(pipeline("chunks"), 2, 1, false, 2, "bf16"),
          divided(mesh_run(pipeline("alone"), 4, 2, true)),
          divided(mesh_run(pipeline("1f1b"), 2, 4, true, 8)),
          divided(mesh_run(pipeline("dualpipe"), 2, 2, true)),
          divided(mesh_run(pipeline("zb_v"), 2, 1, true, 2, "bf16"))};
}

class Meshes : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(Meshes, HaveTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Some, Meshes, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

// Muon updates whole matrices, and evaluations of averages need those of all copies.
TEST(DividedUpdate, OfWholeMatricesWithAverages) {
  expect_one_ranks_numbers({"train.optimizer=muon", "train.average_decay=0.9", "evaluate.average=true", "train.accumulators=2"},
                           {{2, {"mesh.data=2", "mesh.shard=optimizer", "pipeline.ranks=2"}}});
  // One copy has nothing to evaluate.
  expect_one_ranks_numbers(
      {"train.average_decay=0.9", "evaluate.average=true", "evaluate.batches=1", "train.accumulators=2"},
      {{2, {"mesh.data=2", "mesh.shard=optimizer"}}, {1, {"mesh.shard=optimizer", "pipeline.ranks=2", "pipeline.schedule=dualpipe"}}});
}

// Rank 1 has a module and the head, in whose shard the table is that the module reads before.
TEST(DividedUpdate, GathersATableBeforeThoseWhoReadIt) {
  expect_one_ranks_numbers({"model.mtp_layers=2", "model.tie_word_embeddings=true", "train.accumulators=2", "model.vocab_size=4000"},
                           {{1,
                             {"mesh.data=2", "mesh.shard=optimizer", "pipeline.ranks=2", "pipeline.chunks=2",
                              "pipeline.schedule=interleaved", "pipeline.layout=E t*4 | M | M | H"}}});
}

// Gradients of single microbatches have one order, whoever adds them and keeps their sums.
TEST(DividedGradients, HaveTheBitsOfOneRank) {
  expect_one_ranks_numbers(
      {"train.leaf=microbatch", "train.microbatches=8", "model.tie_word_embeddings=true", "train.steps=6"},
      {{2, {"mesh.data=2", "mesh.shard=gradients"}},
       {1, {"mesh.data=4", "mesh.shard=gradients"}},
       {2, {"pipeline.ranks=2", "pipeline.schedule=zb-h1"}},
       {1, {"mesh.data=2", "mesh.shard=gradients", "pipeline.chunks=4", "pipeline.schedule=interleaved"}},
       {1,
        {"mesh.data=2", "mesh.shard=gradients", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=interleaved",
         "pipeline.layout=E t*2 | t | | t H"}},
       {2, {"mesh.data=2", "mesh.shard=gradients", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}}});
}

// Steps of four microbatches, and then of eight.
TEST(DividedGradients, GrowWithTheBatch) {
  expect_one_ranks_numbers(
      {"train.leaf=microbatch", "train.microbatches=8", "train.ramp_microbatches=4", "train.ramp_increment=4", "train.ramp_rows=24",
       "train.average_decay=0.9", "evaluate.average=true", "train.steps=6", "train.optimizer=muon"},
      {{2, {"mesh.data=2", "mesh.shard=gradients", "pipeline.ranks=2"}}});
}

// Weights of experts keep whole sums, which those with the same experts divide at the end; the others are divided in each action.
TEST(DividedGradients, OfMixtures) {
  for (const char* model : {"mixtral", "deepseek_v3"}) {
    Words words = expert_run(model, {});
    words.insert(words.end(), {"train.accumulators=1", "train.leaf=microbatch", "train.expert_accumulators=2", "train.steps=4"});
    expect_one_ranks_numbers(
        words, {{1, {"mesh.data=2", "mesh.expert=1", "mesh.shard=gradients"}},
                {2, {"mesh.data=4", "mesh.expert=2", "mesh.shard=gradients"}},
                {1, {"mesh.data=4", "mesh.expert=2", "mesh.shard=gradients", "pipeline.ranks=2", "pipeline.weave=neighbours"}}});
  }
}

// Ranks have the weights of two of their stages at a time, or of more or fewer, and gather those of others when they need them.
TEST(DividedParameters, HaveTheBitsOfOneRank) {
  expect_one_ranks_numbers(
      {"train.leaf=microbatch", "train.microbatches=8", "model.tie_word_embeddings=true", "train.steps=4"},
      {{2, {"mesh.data=2", "mesh.shard=parameters"}},
       {1,
        {"mesh.data=4", "mesh.shard=parameters", "pipeline.layout=E | t | t | t | t H", "pipeline.chunks=5",
         "pipeline.schedule=looped-bfs"}},
       {2,
        {"mesh.data=2", "mesh.shard=parameters", "pipeline.layout=E | t | t | t | t H", "pipeline.chunks=5", "pipeline.schedule=looped-bfs",
         "mesh.weight_slots=1"}},
       {2, {"mesh.data=2", "mesh.shard=parameters", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}},
       {1,
        {"mesh.data=2", "mesh.shard=parameters", "pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=interleaved",
         "mesh.weight_slots=1"}}});
}

// Without leaves each copy has whole sums, as with mesh.shard = optimizer.
TEST(DividedParameters, AlsoWithSumsOfParts) {
  expect_one_ranks_numbers({"train.accumulators=4", "train.microbatches=8", "train.steps=4", "model.tie_word_embeddings=true"},
                           {{2, {"mesh.data=2", "mesh.shard=parameters", "pipeline.chunks=4", "pipeline.schedule=interleaved"}},
                            {1, {"mesh.data=4", "mesh.shard=parameters", "pipeline.ranks=2", "pipeline.schedule=zb-h1"}}});
}

// What programs read is gathered in bf16; an evaluation of averages gathers them, and one copy may have nothing to evaluate.
TEST(DividedParameters, InBf16WithAverages) {
  expect_one_ranks_numbers({"train.dtype=bf16", "train.leaf=microbatch", "train.optimizer=muon", "train.average_decay=0.9",
                            "evaluate.average=true", "evaluate.batches=1", "train.microbatches=4", "train.steps=6"},
                           {{2, {"mesh.data=2", "mesh.shard=parameters", "pipeline.chunks=4", "pipeline.schedule=looped-bfs"}},
                            {1, {"mesh.data=4", "mesh.shard=parameters", "pipeline.ranks=2"}}});
}

// Tables and matrices of several hash chunks, which copies divide within, reduce and gather in several steps (with other divisions in
// mesh_full_test.cpp).
TEST(DividedParameters, CutLargeTensors) {
  expect_one_ranks_numbers(
      {"model.vocab_size=20000", "model.hidden_size=256", "model.intermediate_size=10000", "model.layers=2", "train.leaf=microbatch",
       "train.steps=2", "evaluate.every=0"},
      {{2,
        {"mesh.data=2", "mesh.shard=parameters", "pipeline.layout=E | t | t | H", "pipeline.chunks=4", "pipeline.schedule=looped-bfs"}}});
}

// Routers' biases, QK-clip's matrices and experts belong to one owner each; experts that only one rank has are not gathered.
TEST(DividedParameters, OfMixtures) {
  for (const char* model : {"mixtral", "deepseek_v3"}) {
    Words words = expert_run(model, {});
    words.insert(words.end(), {"train.accumulators=1", "train.leaf=microbatch", "train.expert_accumulators=2", "train.steps=4"});
    expect_one_ranks_numbers(
        words, {{1, {"mesh.data=2", "mesh.expert=1", "mesh.shard=parameters"}},
                {2, {"mesh.data=4", "mesh.expert=2", "mesh.shard=parameters"}},
                {1, {"mesh.data=4", "mesh.expert=2", "mesh.shard=parameters", "pipeline.ranks=2", "pipeline.weave=neighbours"}}});
  }
}

// A table of two hash chunks that is not trained, whose gradients embedding and head have on different ranks.
TEST(DividedParameters, OfAFrozenTiedTable) {
  const Words keys{"model.tie_word_embeddings=true", "model.vocab_size=12000", "model.hidden_size=256",
                   "train.trainable=[\"mlp\"]",      "train.steps=3",          "evaluate.every=0"};
  const auto with = [&](const Words& more) {
    Words words = keys;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_one_ranks_numbers(with({"train.leaf=microbatch"}), {{2, {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=gradients"}},
                                                             {1, {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=parameters"}}});
  expect_one_ranks_numbers(with({"train.accumulators=2"}), {{2, {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=optimizer"}}});
}

/// Runs that share a folder, one after another.
struct RunFolder {
  TemporaryFolder folder;
  RunFolder() { write_small_texts(folder, "text"); }
  [[nodiscard]] JobResult train(int processes, const std::string& name, const Words& more) const {
    Words words{"train",
                "model.preset=tiny",
                "model.tie_word_embeddings=true",
                "data.text=" + folder / "text",
                "data.held_out=6",
                "evaluate.batches=3",
                "train.batch=2",
                "train.sequence=32",
                "train.microbatches=8",
                "train.accumulators=4",
                "train.threads=1",
                "train.steps=4",
                "run.directory=" + folder / name};
    words.insert(words.end(), more.begin(), more.end());
    return run_job(processes, words);
  }
  [[nodiscard]] std::string hash(const std::string& name) const { return run_job(1, {"ckpt", "hash", folder / name}).out; }
};

// Numbers that depend on the copies would show here, in every tensor of every operation.
TEST(Mesh, RecordsTheTensorsOfOneRank) {
  const RunFolder runs;
  for (const auto& [name, words] : std::vector<std::pair<std::string, Words>>{
           {"one", {}},
           {"copies", {"mesh.data=2", "pipeline.ranks=2", "pipeline.schedule=zb-h1"}},
           {"mirror", {"mesh.data=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe"}},
           {"divided", {"mesh.data=2", "pipeline.ranks=2", "mesh.shard=optimizer"}},
           {"divided_chunks", {"mesh.data=2", "pipeline.chunks=2", "pipeline.schedule=interleaved", "mesh.shard=optimizer"}},
           {"parameters", {"mesh.data=2", "pipeline.chunks=4", "pipeline.schedule=looped-bfs", "mesh.shard=parameters"}}}) {
    const auto job = runs.train(1, name, [&, more = words]() mutable {
      more.insert(more.end(), {"run.record=hashes", "train.steps=2"});
      return more;
    }());
    ASSERT_EQ(job.code, 0) << job.out << job.err;
    if (name == "one") continue;
    const auto compared = run_job(1, {"compare", runs.folder / "one", runs.folder / name});
    EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
  }
}

// Every start but the last is killed when it has saved a step, and the next one has another mesh.
TEST(Mesh, GoesOnWithAnotherNumberOfCopies) {
  const RunFolder runs;
  ASSERT_EQ(runs.train(1, "whole", {}).code, 0);
  const Words killed{"checkpoint.every=1", "debug.fault=point=checkpoint.after_commit:hit=1:kill:rank=0"};
  for (const Words& mesh :
       {Words{"mesh.data=4", "mesh.shard=optimizer"}, Words{"mesh.data=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe"},
        Words{"mesh.data=2", "mesh.shard=parameters", "pipeline.chunks=4", "pipeline.schedule=interleaved"}}) {
    auto words = killed;
    words.insert(words.end(), mesh.begin(), mesh.end());
    EXPECT_NE(runs.train(1, "cut", words).code, 0);
  }
  const auto end = runs.train(2, "cut", {"mesh.data=2", "pipeline.ranks=2"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_NE(end.out.find("resumes after step 3"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("2 copies of 2 ranks in 2 processes"), std::string::npos) << end.out;
  EXPECT_EQ(runs.hash("cut"), runs.hash("whole"));
  EXPECT_EQ(runs.hash("cut").size(), 33U);
}

TEST(Mesh, RefusesWhatItsCopiesCannotShare) {
  const RunFolder runs;
  const auto refusal = [&](const Words& words) {
    const auto job = runs.train(1, "refused", words);
    EXPECT_NE(job.code, 0);
    return job.out + job.err;
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
  };
  const auto one = refusal({"mesh.data=2", "train.accumulators=1"});
  expect(one, "train.accumulators = 1, expected a multiple of the 2 copies");
  expect(one, "nearest legal: mesh.data = 1, or train.accumulators = 2 for a new run");
  expect(refusal({"mesh.data=8"}), "nearest legal: mesh.data = 4, or train.accumulators = 8 for a new run");
  expect(refusal({"mesh.data=4", "pipeline.ranks=2", "pipeline.schedule=dualpipe", "train.microbatches=16"}),
         "expected a multiple of the 8 replicas of 4 copies (each has 2 directions); nearest legal: mesh.data = 2");
  expect(refusal({"mesh.data=3"}), "train.microbatches = 8, expected a multiple of the 3 copies (mesh.data)");
  expect(refusal({"mesh.expert=2"}), "mesh.expert = 2, but the model has no experts, expected 1");
  expect(refusal({"mesh.data=4", "mesh.expert=3"}), "mesh.expert = 3, expected a divisor of mesh.data = 4; nearest legal: 2 or 4");
  expect(refusal({"mesh.date=2"}), "mesh.data");
  expect(refusal({"mesh.data=2", "mesh.shard=gradients"}), "expected train.leaf = \"microbatch\"");
  expect(refusal({"train.leaf=microbatch"}), "train.accumulators = 4");
  expect(refusal({"mesh.data=2", "train.leaf=microbatch", "train.accumulators=1"}),
         "train.leaf = microbatch with mesh.shard = none, expected gradients or parameters");
  expect(refusal({"mesh.data=2", "pipeline.ranks=2", "pipeline.schedule=dualpipe", "mesh.shard=parameters"}),
         "mesh.shard = parameters with schedule dualpipe, expected optimizer or another schedule");
  expect(refusal({"pipeline.ranks=2", "pipeline.schedule=dualpipe", "train.leaf=microbatch", "train.accumulators=1"}),
         "train.leaf = microbatch with schedule dualpipe");
}

}  // namespace
}  // namespace millrace::tests
