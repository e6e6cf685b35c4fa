#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "configs/identity.hpp"
#include "configs/load.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/formats/model_folder.hpp"
#include "layers/models/model.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// A run directory with checkpoints of some steps of the model `tiny`, as training writes them.
class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    configs::LoadRequest request;
    request.overrides = {"model.preset=tiny", "train.threads=1", "model.rope_theta=50000"};
    request.complete = false;
    config_ = configs::load(request).config;
    run_ = folder_ / "run";
  }

  /// Each of the writers has an equal part of the experts, and the first has everything else.
  void save(std::uint64_t step, int writers = 1) {
    runtime::CheckpointStore store(run_);
    std::vector<std::vector<runtime::CheckpointTensor>> tensors(static_cast<std::size_t>(writers));
    std::vector<std::vector<float>> memory;
    for (const auto& spec : layers::model_parameters(config_.model)) {
      auto& elements = memory.emplace_back(static_cast<std::size_t>(spec.shape.elements()));
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = value(step, spec, i);
      auto shape = spec.shape.sizes();
      const auto bytes = std::as_bytes(std::span(elements));
      if (!spec.experts.present()) {
        tensors[0].push_back({spec.name, runtime::FileDType::f32, shape, bytes, {}});
        continue;
      }
      shape[0] /= writers;
      const std::size_t each = bytes.size() / tensors.size();
      for (std::size_t writer = 0; writer < tensors.size(); ++writer)
        tensors[writer].push_back({spec.name,
                                   runtime::FileDType::f32,
                                   shape,
                                   bytes.subspan(writer * each, each),
                                   {},
                                   static_cast<std::int64_t>(writer) * shape[0],
                                   spec.experts.whole});
    }
    const auto folder = store.begin(step, 1 << 20);
    std::vector<runtime::ShardReport> reports;
    for (int writer = 0; writer < writers; ++writer)
      reports.push_back(runtime::write_shard(folder, writer, writers, tensors[static_cast<std::size_t>(writer)]));
    store.commit(folder, reports, {step, step * 8, configs::identity(config_), {}});
  }
  void use_mixture() {
    configs::LoadRequest request;
    request.overrides = {"model.preset=tiny", "train.threads=1", "model.family=mixtral", "model.experts=4", "model.experts_per_token=2"};
    request.complete = false;
    config_ = configs::load(request).config;
  }

  static float value(std::uint64_t step, const layers::ParameterSpec& spec, std::size_t i) {
    return static_cast<float>(step) + static_cast<float>(spec.order) / 64.0F + static_cast<float>(i) / 1048576.0F;
  }

  [[nodiscard]] std::string checkpoint(std::uint64_t step) const {
    return runtime::checkpoints_folder(run_) + "/" + runtime::checkpoint_name(step);
  }

  void damage(std::uint64_t step) const {
    std::fstream file(checkpoint(step) + "/" + runtime::shard_name(0, 1), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    const char letter = static_cast<char>(file.peek() ^ 1);
    file.seekp(-5, std::ios::end);
    file.put(letter);
  }

  TemporaryFolder folder_;
  configs::RunConfig config_;
  std::string run_;
};

TEST_F(CheckpointCommand, ListsWhatWasCommitted) {
  save(10);
  save(20);
  std::filesystem::create_directories(runtime::checkpoints_folder(run_) + "/step-00000030.tmp-9");  // left by a killed writer
  const auto result = run_millrace({"ckpt", "ls", run_});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_LT(result.out.find("step       10"), result.out.find("step       20")) << result.out;
  EXPECT_EQ(result.out.find("30"), std::string::npos) << result.out;
}

TEST_F(CheckpointCommand, ListsOneThatIsNamed) {
  save(10);
  save(20);
  for (const std::string end : {"", "/"}) {
    const auto one = run_millrace({"ckpt", "ls", checkpoint(10) + end});
    EXPECT_EQ(one.code, 0) << one.err;
    expect_parts(one.out, {"step       10", checkpoint(10) + "  complete"});
    EXPECT_EQ(one.out.find("step       20"), std::string::npos) << one.out;
  }
  std::filesystem::remove(checkpoint(10) + "/" + runtime::commit_name);
  const auto broken = run_millrace({"ckpt", "ls", checkpoint(10)});
  EXPECT_EQ(broken.code, static_cast<int>(ExitCode::checkpoint)) << broken.out;
  expect_parts(broken.out, {"step       10", "?", runtime::commit_name});
  expect_failure(run_millrace({"ckpt", "export-hf", run_}), ExitCode::usage, {"export-hf with 1 path, expected a run directory"});
}

TEST_F(CheckpointCommand, HashIsTheNewestOnesOrTheNamedOnes) {
  save(10);
  save(20);
  const auto newest = run_millrace({"ckpt", "hash", run_}), older = run_millrace({"ckpt", "hash", checkpoint(10)});
  EXPECT_EQ(newest.out, runtime::CheckpointReader(checkpoint(20)).state_hash().hex() + "\n");
  EXPECT_EQ(older.out, runtime::CheckpointReader(checkpoint(10)).state_hash().hex() + "\n");
  EXPECT_NE(newest.out, older.out);
}

TEST_F(CheckpointCommand, HashIsOfTheDataAndNamesWhatIsDamaged) {
  save(10);
  const auto whole = run_millrace({"ckpt", "hash", run_});
  const auto quick = run_millrace({"ckpt", "hash", run_, "--quick"});
  EXPECT_EQ(quick.code, 0) << quick.err;
  EXPECT_EQ(quick.out.substr(0, 32), whole.out.substr(0, 32));
  expect_parts(quick.out, {"from the manifest", "the data was not read"});
  damage(10);
  const auto damaged = run_millrace({"ckpt", "hash", run_});
  expect_failure(damaged, ExitCode::checkpoint, {runtime::shard_name(0, 1), "tensor 'model.", "at byte 0", "was committed"});
  EXPECT_EQ(damaged.out, "");
  EXPECT_EQ(run_millrace({"ckpt", "hash", run_, "--quick"}).out, quick.out) << "which is why it says what it is";
  expect_failure(run_millrace({"ckpt", "verify", run_, "--quick"}), ExitCode::usage,
                 {"unknown option --quick", "millrace ckpt verify --help"});
}

TEST_F(CheckpointCommand, VerifyNamesTheDamage) {
  save(10);
  save(20);
  EXPECT_EQ(run_millrace({"ckpt", "verify", run_}).code, 0);
  damage(20);
  const auto all = run_millrace({"ckpt", "verify", run_});
  EXPECT_EQ(all.code, static_cast<int>(ExitCode::difference));
  expect_parts(all.out, {"step-00000010: good", "step-00000020: damaged\n  " + runtime::shard_name(0, 1) + ": tensor 'model."});
  EXPECT_EQ(run_millrace({"ckpt", "verify", checkpoint(10)}).code, 0);
  EXPECT_EQ(run_millrace({"ckpt", "verify", checkpoint(20)}).code, static_cast<int>(ExitCode::difference));
}

TEST_F(CheckpointCommand, ADamagedManifestIsNoCheckpoint) {
  save(10);
  std::filesystem::resize_file(checkpoint(10) + "/" + runtime::manifest_name, 100);
  EXPECT_EQ(run_millrace({"ckpt", "verify", run_}).code, static_cast<int>(ExitCode::difference));
  expect_failure(run_millrace({"ckpt", "hash", run_}), ExitCode::checkpoint, {runtime::manifest_name});
  const auto list = run_millrace({"ckpt", "ls", run_});
  EXPECT_EQ(list.code, static_cast<int>(ExitCode::checkpoint)) << "none is usable";
  expect_parts(list.out, {runtime::manifest_name});
  // Those that were put aside are listed among the others, by their steps.
  save(5);
  save(20);
  std::filesystem::rename(checkpoint(10), checkpoint(10) + ".bad");
  const auto mixed = run_millrace({"ckpt", "ls", run_});
  EXPECT_EQ(mixed.code, 0) << mixed.out;
  EXPECT_LT(mixed.out.find("step        5"), mixed.out.find("step       10")) << mixed.out;
  EXPECT_LT(mixed.out.find("step       10"), mixed.out.find("step       20")) << mixed.out;
}

TEST_F(CheckpointCommand, AnOlderOneIsNamed) {
  save(10);
  save(20);
  const Words eval{"eval", "--checkpoint", run_, "data.text=README.md", "--microbatches", "1"};
  EXPECT_EQ(run_millrace(eval).code, 0);
  damage(20);
  const std::string older = "; an older checkpoint of this run is " + checkpoint(10);
  expect_failure(run_millrace(eval), ExitCode::checkpoint, {"tensor 'model.", older});
  expect_failure(run_millrace({"ckpt", "export-hf", run_, folder_ / "out"}), ExitCode::checkpoint, {"tensor 'model.", older});
  std::filesystem::resize_file(checkpoint(20) + "/" + runtime::manifest_name, 100);
  expect_failure(run_millrace(eval), ExitCode::checkpoint, {runtime::manifest_name, older});
  EXPECT_EQ(run_millrace(joined(eval, {"--checkpoint", checkpoint(10)})).code, 0);
}

TEST_F(CheckpointCommand, WhatIsNoRunIsSaid) {
  for (const char* word : {"ls", "verify", "hash"}) {
    expect_failure(run_millrace({"ckpt", word, folder_ / "nowhere"}), ExitCode::checkpoint, {"no such folder"});
    expect_failure(run_millrace({"ckpt", word, folder_.path().string()}), ExitCode::checkpoint, {"neither a run directory"});
    runtime::make_directories(run_ + "/checkpoints");
    expect_failure(run_millrace({"ckpt", word, run_ + "/checkpoints/"}), ExitCode::checkpoint, {"or the run directory, " + run_});
  }
}

TEST_F(CheckpointCommand, ExpertsOfSeveralWritersAreThoseOfOne) {
  use_mixture();
  std::string hash;
  for (const int writers : {1, 2, 4}) {
    const std::string out = folder_ / ("hf" + std::to_string(writers));
    std::filesystem::remove_all(run_);
    save(10, writers);
    const auto verified = run_millrace({"ckpt", "verify", run_}), hashed = run_millrace({"ckpt", "hash", run_});
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
    expect_parts(verified.out, {fmt::format("tensors in {} file", writers)});
    if (hash.empty()) hash = hashed.out;
    EXPECT_EQ(hashed.out, hash);
    ASSERT_EQ(run_millrace({"ckpt", "export-hf", run_, out}).code, 0);
    const layers::FolderWeights weights(out, config_.model);
    for (const auto& spec : layers::model_parameters(config_.model)) {
      std::vector<float> elements(static_cast<std::size_t>(spec.shape.elements()));
      weights.read(spec, elements);
      for (std::size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(elements[i], value(10, spec, i)) << spec.name << " " << i;
    }
  }
  std::filesystem::resize_file(checkpoint(10) + "/" + runtime::shard_name(3, 4), 100);
  expect_failure(run_millrace({"ckpt", "hash", run_}), ExitCode::checkpoint, {runtime::shard_name(3, 4)});
}

TEST_F(CheckpointCommand, ExportHasTheBitsAndTheModel) {
  save(10);
  const auto out = folder_ / "hf";
  const auto result = run_millrace({"ckpt", "export-hf", run_, out});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(layers::read_config_file(out).model, config_.model);
  const layers::FolderWeights weights(out, config_.model);
  for (const auto& spec : layers::model_parameters(config_.model)) {
    std::vector<float> elements(static_cast<std::size_t>(spec.shape.elements()));
    weights.read(spec, elements);
    for (std::size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(elements[i], value(10, spec, i)) << spec.name << " " << i;
  }
  const auto shown = run_millrace({"config", "show", "model.from=" + out});
  EXPECT_EQ(shown.code, 0) << shown.err;
  expect_parts(shown.out, {"rope_theta = 50000.0"});
  // The folder appears complete, and never replaces another.
  EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));
  expect_failure(run_millrace({"ckpt", "export-hf", run_, out}), ExitCode::usage, {out, "expected an empty or a new one"});
}

TEST_F(CheckpointCommand, ExportInBf16Rounds) {
  save(10);
  const auto out = folder_ / "hf";
  ASSERT_EQ(run_millrace({"ckpt", "export-hf", checkpoint(10), out, "--dtype", "bf16"}).code, 0);
  const runtime::TensorSource source(out);
  EXPECT_EQ(source.at("model.norm.weight").dtype, runtime::FileDType::bf16);
  const layers::FolderWeights weights(out, config_.model);
  for (const auto& spec : layers::model_parameters(config_.model)) {
    std::vector<float> elements(static_cast<std::size_t>(spec.shape.elements()));
    weights.read(spec, elements);
    for (std::size_t i = 0; i < elements.size(); ++i) ASSERT_NEAR(elements[i], value(10, spec, i), value(10, spec, i) / 256) << spec.name;
  }
}

TEST_F(CheckpointCommand, ExportOfDamagedDataNamesIt) {
  save(10);
  damage(10);
  expect_failure(run_millrace({"ckpt", "export-hf", run_, folder_ / "hf"}), ExitCode::checkpoint, {runtime::shard_name(0, 1)});
}

}  // namespace
}  // namespace millrace::tests
