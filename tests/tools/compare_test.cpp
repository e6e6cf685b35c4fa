#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/io/hash_recorder.hpp"
#include "runtime/io/hash_recording.hpp"
#include "tests/tools/run_command.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;

/// Recorded runs of four steps; the others are compared with `base`, which ran on four ranks.
class Compare : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    train("base", {"pipeline.ranks=4"}, on_processes(4));
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string run(const std::string& name) { return *folder_ / name; }
  static void train(const std::string& name, const Words& more, const std::string& before = "") {
    const auto result = run_millrace(
        joined({"train", "configs/runs/tiny.toml", "--record", "hashes", "train.threads=1", "train.steps=4", "train.warmup_steps=1",
                "data.text=docs", "data.held_out=0", "sample.tokens=0", "checkpoint.every=2", "run.directory=" + run(name)},
               more),
        before);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static CommandResult compare(const std::string& left, const std::string& right) {
    return run_millrace({"compare", run(left), run(right)});
  }
  static std::string checkpoint(const std::string& name, std::uint64_t step) {
    return runtime::checkpoints_folder(run(name)) + "/" + runtime::checkpoint_name(step);
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

/// Rewrites the checkpoint of step 2 with one bit of one weight flipped, and removes later ones.
void flip_bit(const std::string& run, const std::string& folder, const std::string& name, std::size_t element) {
  runtime::CheckpointMeta meta;
  std::vector<runtime::CheckpointTensor> tensors;
  std::vector<std::vector<std::byte>> memory;
  {
    const runtime::CheckpointReader reader(folder);
    meta = reader.meta();
    for (const auto& tensor : reader.manifest().tensors) {
      std::size_t elements = 1;
      for (const auto size : tensor.shape) elements *= static_cast<std::size_t>(size);
      auto& bytes = memory.emplace_back(elements * sizeof(float));
      reader.read_bytes(tensor.name, bytes);
      if (tensor.name == name) bytes.at(element * sizeof(float)) ^= std::byte{1};
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes, {}});
    }
  }
  fs::remove_all(runtime::checkpoints_folder(run) + "/" + runtime::checkpoint_name(4));
  fs::remove_all(folder);
  runtime::CheckpointStore store(run);
  const auto attempt = store.begin(2, 1 << 20);
  const std::vector reports{runtime::write_shard(attempt, 0, 1, tensors)};
  store.commit(attempt, reports, meta);
}

TEST_F(Compare, EqualRunsAreIdenticalWhateverTheirLayouts) {
  train("other_layout", {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}, on_processes(2));
  train("one_rank", {"pipeline.ranks=1"});
  for (const std::string name : {"other_layout", "one_rank"}) {
    const auto result = compare("base", name);
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    expect_parts(result.out, {"steps 1 to 4 are in both recordings; 4 of them identical", "\nidentical\n"});
    EXPECT_EQ(result.out.find(" alone"), std::string::npos) << result.out;
  }
}

TEST_F(Compare, ARecordingThatIsCutShortIsSaidToBe) {
  fs::copy(run("base"), run("cut"), fs::copy_options::recursive);
  const std::string file = run("cut") + "/hashes/after-00000000.rank-0";
  fs::resize_file(file, fs::file_size(file) - 100);
  for (const bool cut_first : {false, true}) {
    const auto result = cut_first ? compare("cut", "base") : compare("base", "cut");
    EXPECT_EQ(result.code, 0) << result.err;
    expect_parts(result.out, {"steps 1 to 3 are in both recordings; 3 of them identical",
                              run("base") + " goes on to step 4, of which the other has no whole recording\n", "\nidentical\n"});
  }
}

TEST_F(Compare, AnotherLearningRateShowsInTheFirstWeightOfTheSecondStep) {
  train("other_rate", {"pipeline.ranks=2", "train.learning_rate=0.001"});
  const auto result = compare("base", "other_rate");
  EXPECT_EQ(result.code, 1) << result.err;
  expect_parts(result.out, {"train.learning_rate = 0.003 here, 0.001 there", "1 of them identical",
                            "first difference: step 2, before its first action, stage 0, weight model.embed_tokens.weight\n",
                            "f32 [257, 32]: ", " here, "});
}

TEST_F(Compare, OneFlippedBitOfAWeightIsFound) {
  const std::string weight = "model.layers.2.mlp.up_proj.weight";
  train("flipped", {"pipeline.ranks=4"});
  flip_bit(run("flipped"), checkpoint("flipped", 2), weight, 70);
  train("flipped", {"pipeline.ranks=4"});
  const auto result = compare("base", "flipped");
  EXPECT_EQ(result.code, 1) << result.err;
  expect_parts(result.out, {"2 of them identical", "first difference: step 3, before its first action, stage 2, weight " + weight + "\n",
                            ": 1 of ", " elements differ; the first at [2, 6]: "});
}

/// A copy of a run whose recording has another hash for one tensor in step 3 and microbatch 2, as if the machine had once computed it
/// differently.
void record_other_hash(const std::string& run, const std::string& odd_run, const std::string& tensor) {
  fs::copy(run, odd_run, fs::copy_options::recursive);
  fs::remove_all(odd_run + "/hashes");
  const runtime::HashRecording recording(run);
  runtime::HashRecorder recorder(odd_run, 0, 1, 0);
  for (const auto& [step, sum] : recording.steps()) {
    recorder.begin_step(step);
    for (const auto& recorded : recording.read(step)) {
      auto record = recorded.record;
      record.name = recorder.name(recorded.operation, recorded.place.tensor);
      const bool odd = step == 3 && record.microbatch == 2 && recorded.place.tensor == tensor;
      recorder.add_hash(record, odd ? record.hash ^ 1 : record.hash);
    }
  }
}

TEST_F(Compare, NamesTheOperationAndTellsThatTheRunDoesNotLeaveItAgain) {
  record_other_hash(run("base"), run("odd"), "layers.1.mlp.swiglu");
  const auto result = compare("base", "odd");
  EXPECT_EQ(result.code, 1) << result.err;
  expect_parts(
      result.out,
      {"2 of them identical",
       "first difference: step 3, microbatch 2, stage 1, forward, operation layers.1.mlp.swiglu, tensor layers.1.mlp.swiglu\n1 of the ",
       "odd: the step was run again and gave other values than recorded", "when run again, both give the same values"});
}

/// Weights of experts and the rows in their order have the names of their experts.
TEST_F(Compare, ExpertsAreComparedOneByOne) {
  const auto mixture = [](const char* ranks) {
    return Words{"model.family=mixtral", "model.experts=4", "model.experts_per_token=2", std::string("pipeline.ranks=") + ranks};
  };
  train("mixture", mixture("2"), on_processes(2));
  train("mixture_flipped", mixture("1"));
  const auto same = compare("mixture", "mixture_flipped");
  EXPECT_EQ(same.code, 0) << same.out << same.err;

  record_other_hash(run("mixture"), run("mixture_odd"), "layers.1.mlp.down_proj#expert2");
  const auto odd = compare("mixture", "mixture_odd");
  EXPECT_EQ(odd.code, 1) << odd.err;
  expect_parts(odd.out, {"forward, operation layers.1.mlp.down_proj, tensor layers.1.mlp.down_proj#expert2\n1 of the ",
                         "mixture_odd: the step was run again and gave other values than recorded", "both give the same values"});
  EXPECT_EQ(odd.out.find("mixture: the step was run again"), std::string::npos) << odd.out;

  const std::string weight = "model.layers.2.block_sparse_moe.experts.w1.weight";
  const auto shape = runtime::CheckpointReader(checkpoint("mixture_flipped", 2)).at(weight).shape;
  const std::int64_t expert = shape.at(1) * shape.at(2);
  flip_bit(run("mixture_flipped"), checkpoint("mixture_flipped", 2), weight, static_cast<std::size_t>(expert + 3));
  train("mixture_flipped", mixture("1"));
  const auto flipped = compare("mixture", "mixture_flipped");
  EXPECT_EQ(flipped.code, 1) << flipped.err;
  expect_parts(flipped.out, {"2 of them identical", "weight " + weight + "#expert1\n",
                             ": 1 of " + std::to_string(expert) + " elements differ; the first at [0, 0, 3]: "});
}

TEST_F(Compare, RefusesWhatIsNoRecording) {
  expect_failure(run_millrace({"compare", run("base")}), ExitCode::usage, {"1 name, expected the directories of two runs"});
  expect_failure(compare("base", "nowhere"), ExitCode::usage, {"nowhere: not a run directory"});
  fs::copy(run("base"), run("bare"), fs::copy_options::recursive);
  fs::remove_all(run("bare") + "/hashes");
  expect_failure(compare("base", "bare"), ExitCode::data,
                 {"bare has no folder hashes, expected a run that was trained with --record hashes"});
  expect_failure(run_millrace({"train", "configs/runs/tiny.toml", "data.text=docs", "run.directory=", "--record", "hashes"}),
                 ExitCode::config, {"run.record", "run.directory"});
}

}  // namespace
}  // namespace millrace::tests
