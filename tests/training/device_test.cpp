#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>

#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"
#include "tests/training/device_run.hpp"

// Runs on ranks with GPUs: every layout gives the bits of one rank with a GPU, and losses close to those of a CPU.
namespace millrace::tests {
namespace {

/// What the numbers may depend on.
struct Kind {
  std::string name;
  Words words;
};
const Kind fp32{"fp32", {}};
const Kind bf16{"bf16", {"train.dtype=bf16", "train.microbatches=2", "train.steps=2"}};
const Kind tied{"tied", {"model.tie_word_embeddings=true"}};
const Kind two_sums{"two_sums", {"train.accumulators=2"}};

/// What they must not depend on.
struct Case {
  std::string name;
  Kind kind;
  int processes;
  Words words;
  Words environment;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

const Words kSlow{"EMULATED_CUDA_DELAY_US=200"};  // makes a missing wait visible

std::vector<Case> cases() {
  const std::string ranks = "pipeline.ranks=", chunks = "pipeline.chunks=2",
                    schedule = "pipeline.schedule=", keep = "rematerialize.policy=";
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const Kind& kind, int processes, const Words& words, const Words& environment = {}) {
    all.push_back({name, kind, processes, words, environment});
  };
  // Ranks of one process are assigned to its GPUs in turn: their boundaries go from device to device.
  add("one_f_one_b", fp32, 1, {ranks + "2", schedule + "1f1b"}, kSlow);
  add("zb_h1", fp32, 1, {ranks + "2", schedule + "zb-h1"});
  add("gpipe", fp32, 1, {ranks + "4", schedule + "gpipe"});
  add("zb_v", fp32, 1, {ranks + "2", chunks, schedule + "zb-v"});
  add("interleaved", fp32, 1, {ranks + "2", chunks, schedule + "interleaved"});
  add("looped", fp32, 1, {ranks + "2", chunks, schedule + "looped-bfs"}, kSlow);
  add("dualpipe_v", fp32, 1, {ranks + "2", chunks, schedule + "dualpipe-v"});
  add("dualpipe", two_sums, 1, {ranks + "2", schedule + "dualpipe", "train.accumulators=1"});
  add("dualpipe_in_two", two_sums, 2, {ranks + "2", schedule + "dualpipe", "train.accumulators=1"}, kSlow);
  add("ranks_of_one_device", fp32, 1, {ranks + "2", "cuda.device=0"}, kSlow);
  add("another_device", fp32, 1, {"cuda.device=1"});
  // Between processes boundaries go through host memory.
  add("two_processes", fp32, 2, {ranks + "2", schedule + "1f1b"});
  add("two_slow_processes", fp32, 2, {ranks + "4", schedule + "zb-h1"}, kSlow);
  add("without_graphs", fp32, 1, {ranks + "2", "cuda.graphs=false"}, kSlow);
  // Values that are kept, recomputed or offloaded.
  add("full", fp32, 1, {keep + "full"});
  add("offload", fp32, 1, {ranks + "2", schedule + "zb-h1", keep + "offload:context,offload:decoder_layer_input"}, kSlow);
  add("offload_and_labels", fp32, 1, {keep + "query_proj,offload:mlpwi_0,offload:mlpwi_1"}, kSlow);
  add("offload_without_graphs", fp32, 1, {keep + "offload:decoder_layer_input,offload:out_proj", "cuda.graphs=false"}, kSlow);
  add("offload_by_stage", fp32, 2, {ranks + "2", "rematerialize.stages=minimal+offload:mlpwo,offload:context"});
  add("offload_states", fp32, 1, {ranks + "2", schedule + "1f1b", "train.offload_states=true"}, kSlow);
  add("offload_states_without_graphs", fp32, 1, {"train.offload_states=true", "cuda.graphs=false", "train.optimizer=adamw"}, kSlow);
  // A tied table on two ranks.
  add("exchange", tied, 1, {ranks + "2"});
  add("exchange_in_two", tied, 2, {ranks + "2"}, kSlow);
  add("two_stages", bf16, 1, {ranks + "2", schedule + "zb-h1"});
  add("two_processes", bf16, 2, {ranks + "2", keep + "offload:context"});
  add("offload_states", bf16, 2, {ranks + "2", "train.offload_states=true"});
  return all;
}

class DeviceLayouts : public DeviceRun, public ::testing::WithParamInterface<Case> {};

/// The second GPU may not exist.
bool wants_another_device(const Case& one) { return one.name == "another_device"; }

TEST_P(DeviceLayouts, HaveTheBitsOfOneRank) {
  static std::map<std::string, DeviceOutcome> known;
  const auto& one = GetParam();
  if (wants_another_device(one) && kernels::cuda_devices().size() < 2) GTEST_SKIP() << "there is one GPU";
  auto [alone, is_new] = known.try_emplace(one.kind.name);
  if (is_new) alone->second = train(1, "alone", one.kind.words);
  ASSERT_EQ(alone->second.code, 0) << alone->second.said;
  ASSERT_EQ(alone->second.hash.size(), 33U) << alone->second.hash;
  auto words = one.kind.words;
  words.insert(words.end(), one.words.begin(), one.words.end());
  const auto found = train(one.processes, "run", words, one.environment);
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.hash, alone->second.hash);
  EXPECT_EQ(found.all, alone->second.all);
}

INSTANTIATE_TEST_SUITE_P(Some, DeviceLayouts, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.kind.name + "_" + one.param.name; });

class Device : public DeviceRun {
 protected:
  void expect_near_a_cpu(const Words& words, double relative) {
    auto on_cpu = words;
    on_cpu.emplace_back("device=cpu");
    const auto device = train(1, "device", words), host = train(1, "host", on_cpu);
    ASSERT_EQ(device.code, 0) << device.said;
    ASSERT_EQ(host.code, 0) << host.said;
    ASSERT_EQ(device.all.size(), 3U);
    for (const auto& [name, values] : host.all) {
      const auto& found = device.all.at(name);
      ASSERT_EQ(found.size(), values.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], relative * std::abs(values[i])) << name << " " << i;
    }
  }
};

TEST_F(Device, HasTheLossesOfACpu) { expect_near_a_cpu({"evaluate.every=1"}, 1e-4); }
TEST_F(Device, HasTheLossesOfACpuInBf16) { expect_near_a_cpu({"train.dtype=bf16", "train.microbatches=2", "train.steps=2"}, 2e-2); }

TEST_F(Device, EvaluatesAndWritesASample) {
  const auto text = [](const std::string& said) {  // from the sample's title to the line below it
    const auto begin = said.find("-- sample");
    return begin == std::string::npos ? std::string() : said.substr(begin, said.find("\n---", begin) - begin);
  };
  const Words words{"sample.tokens=6", "sample.prompt=words", "sample.temperature=0", "evaluate.every=2", "evaluate.batches=3"};
  auto two = words;
  two.insert(two.end(), {"pipeline.ranks=2", "pipeline.schedule=zb-h1"});
  const auto alone = train(1, "alone", words), split = train(2, "split", two);
  ASSERT_EQ(alone.code, 0) << alone.said;
  ASSERT_EQ(split.code, 0) << split.said;
  EXPECT_EQ(alone.all.at("evaluation_loss").size(), 2U);
  EXPECT_EQ(split.all, alone.all);
  EXPECT_GT(text(alone.said).size(), 10U) << alone.said;
  EXPECT_EQ(text(split.said), text(alone.said));
}

TEST_F(Device, GoesOnFromACheckpointAsIfNothingHadBeen) {
  const auto whole = train(1, "whole");
  ASSERT_EQ(whole.code, 0) << whole.said;
  const auto killed = start(1, "run", {"checkpoint.every=1", "debug.fault=point=checkpoint.after_commit:hit=2:kill"});
  ASSERT_EQ(killed.code, 137) << killed.out << killed.err;
  const auto resumed = start(2, "run", {"pipeline.ranks=2"});
  EXPECT_NE(resumed.out.find("resumes after step 2"), std::string::npos) << resumed.out << resumed.err;
  const auto found = outcome(resumed, "run");
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.hash, whole.hash);
  EXPECT_EQ(found.all, whole.all);
}

TEST_F(Device, IsPartOfWhatARunIs) {
  for (const std::string first : {"cpu", "cuda"}) {
    const std::string second = first == "cpu" ? "cuda" : "cpu";
    ASSERT_EQ(start(1, first, {"device=" + first, "train.steps=1"}).code, 0);
    const auto other = start(1, first, {"device=" + second, "train.steps=1"});
    EXPECT_EQ(other.code, static_cast<int>(ExitCode::checkpoint)) << other.out << other.err;
    EXPECT_NE(other.err.find("device was \"" + first + "\", now \"" + second + "\""), std::string::npos) << other.err;
  }
}

TEST_F(Device, RecordsTheSameHashesWhateverTheLayout) {
  ASSERT_EQ(start(1, "alone", {"run.record=hashes", "train.steps=2"}).code, 0);
  ASSERT_EQ(start(1, "split", {"run.record=hashes", "train.steps=2", "pipeline.ranks=2", "pipeline.schedule=zb-h1"}).code, 0);
  const auto compared = run_job(1, {"compare", folder_ / "alone", folder_ / "split"});
  EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
}

TEST_F(Device, LooksForNumbersThatAreNotFinite) {
  const auto plain = train(1, "plain", {"train.steps=2"}), watched = train(1, "watched", {"train.steps=2", "train.find_nan=true"});
  ASSERT_EQ(watched.code, 0) << watched.said;
  EXPECT_EQ(watched.hash, plain.hash);
  for (const std::string found : {"false", "true"}) {  // immediately, or when the step is run once more
    const auto job =
        start(1, "nan_" + found, {"train.find_nan=" + found, "pipeline.ranks=2", "debug.fault=value=layers.1.mlp.up_proj:from=6:nan"});
    EXPECT_EQ(job.code, static_cast<int>(ExitCode::numerics)) << job.out << job.err;
    EXPECT_NE((job.out + job.err).find("layers.1.mlp.up_proj"), std::string::npos) << job.out << job.err;
  }
}

class DeviceParity : public DeviceRun, public ::testing::WithParamInterface<const char*> {};

TEST_P(DeviceParity, IsWithinToleranceWithTheBitsOfOneRank) {
  const auto hash_line = [](const std::string& out) { return out.substr(std::min(out.rfind("\nhash"), out.size())); };
  const Words words{"parity", std::string("tests/golden/") + GetParam(), "--device", "cuda"};
  auto split = words;
  split.insert(split.end(), {"--ranks", "2", "--schedule", "zb-h1"});
  const auto alone = run_job(1, words), two = run_job(1, split);
  ASSERT_EQ(alone.code, 0) << alone.out << alone.err;
  ASSERT_EQ(two.code, 0) << two.out << two.err;
  EXPECT_GT(hash_line(alone.out).size(), 32U) << alone.out;
  EXPECT_EQ(hash_line(two.out), hash_line(alone.out));
}

INSTANTIATE_TEST_SUITE_P(Golden, DeviceParity, ::testing::Values("hf_llama", "hf_gemma2", "hf_gpt2"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace millrace::tests
