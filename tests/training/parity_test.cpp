#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

// `millrace parity` against results of transformers: within tolerance, in bf16 as close as PyTorch, and the same bits in every
// layout.
namespace millrace::tests {
namespace {

struct Where {
  std::string name;
  int processes;
  std::vector<std::string> words;
};

std::vector<Where> everywhere() {
  return {{"three_ranks_gpipe", 1, {"--ranks", "3", "--schedule", "gpipe"}},
          {"three_ranks_1f1b", 1, {"--ranks", "3", "--schedule", "1f1b"}},
          {"three_ranks_zb_h1", 1, {"--ranks", "3", "--schedule", "zb-h1"}},
          {"two_chunks", 1, {"--ranks", "2", "--chunks", "2", "--schedule", "looped-bfs"}},
          {"three_processes", 3, {"--schedule", "1f1b"}}};
}

using Model = std::tuple<std::string, std::string, Where>;

class Parity : public ::testing::TestWithParam<Model> {};

JobResult parity(const std::string& model, const std::string& dtype, int processes, const std::vector<std::string>& more) {
  std::vector<std::string> words{"parity", "tests/golden/" + model, "--dtype", dtype};
  words.insert(words.end(), more.begin(), more.end());
  return run_job(processes, words);
}

TEST_P(Parity, IsWithinToleranceWithTheBitsOfOneRank) {
  static std::map<std::string, JobResult> alone;
  const auto& [model, dtype, where] = GetParam();
  auto [found, is_new] = alone.try_emplace(model + dtype);
  if (is_new) found->second = parity(model, dtype, 1, {});
  const auto& expected = found->second;
  ASSERT_EQ(expected.code, 0) << expected.out << expected.err;
  ASSERT_EQ(printed_hash(expected.out).size(), 32U) << expected.out;
  const auto here = parity(model, dtype, where.processes, where.words);
  ASSERT_EQ(here.code, 0) << here.out << here.err;
  EXPECT_EQ(printed_hash(here.out), printed_hash(expected.out));
}

/// Modules of multi-token prediction, with the head and in stages of their own, several residual streams, and n-gram memories.
INSTANTIATE_TEST_SUITE_P(Modules, Parity,
                         ::testing::Combine(::testing::Values("maxtext_llama2_mtp", "maxtext_deepseek_mtp", "maxtext_deepseek_mhc",
                                                              "maxtext_deepseek_mhc_lite", "maxtext_deepseek_engram"),
                                            ::testing::Values("fp32"),
                                            ::testing::ValuesIn(std::vector<Where>{
                                                {"four_ranks", 1, {"--ranks", "4", "--schedule", "zb-h1"}},
                                                {"two_chunks", 2, {"--chunks", "2", "--schedule", "zb-v"}},
                                                {"four_processes", 4, {"--schedule", "1f1b"}}})),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<2>(one.param).name; });

INSTANTIATE_TEST_SUITE_P(Golden, Parity,
                         ::testing::Combine(::testing::Values("hf_llama", "hf_llama3", "hf_gpt2", "hf_mixtral", "hf_deepseek_v3"),
                                            ::testing::Values("fp32", "bf16"), ::testing::ValuesIn(everywhere())),
                         [](const auto& one) {
                           return std::get<0>(one.param) + "_" + std::get<1>(one.param) + "_" + std::get<2>(one.param).name;
                         });

/// Models with indexers.
INSTANTIATE_TEST_SUITE_P(Indexers, Parity,
                         ::testing::Combine(::testing::Values("hf_deepseek_v32", "maxtext_deepseek_indexer",
                                                              "maxtext_deepseek_indexer_warmup"),
                                            ::testing::Values("fp32"), ::testing::ValuesIn(everywhere())),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<2>(one.param).name; });

/// Models whose layers share keys and values, and have inputs of their own, over the boundaries of stages.
INSTANTIATE_TEST_SUITE_P(Streams, Parity,
                         ::testing::Combine(::testing::Values("hf_gemma4", "hf_gemma4_small", "maxtext_gemma4_moe"),
                                            ::testing::Values("fp32"), ::testing::ValuesIn(everywhere())),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<2>(one.param).name; });

/// Each folder with the distances of PyTorch's bf16 (tests/golden/*/bf16.json): ours are within the factors of docs/numerics.md.
class Bf16BesidePyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(Bf16BesidePyTorch, IsAsNearToFp32) {
  const auto result = parity(std::string("hf_") + GetParam(), "bf16", 1, {});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("times PyTorch's bf16"), std::string::npos) << result.out;
}

INSTANTIATE_TEST_SUITE_P(Golden, Bf16BesidePyTorch,
                         ::testing::Values("deepseek_v3", "deepseek_v32", "gemma", "gemma2", "gemma3", "gemma4", "gpt2", "gpt_oss", "llama",
                                           "llama3", "llama4", "mistral", "mixtral", "olmo3", "qwen2", "qwen3", "qwen3_5", "qwen3_moe",
                                           "qwen3_next"),
                         [](const auto& one) { return one.param; });

/// A folder of a published model has no outputs to compare with.
TEST(ParityWithoutReference, SaysHowToMakeOne) {
  const TemporaryFolder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy(source_path(std::string("tests/golden/hf_llama/") + file), folder / file);
  const auto result = run_job(1, {"parity", folder / ""}, 60);
  EXPECT_EQ(result.code, static_cast<int>(ExitCode::model)) << result.err;
  for (const char* part : {"has no golden.safetensors", "python3 tools/reference/make_golden.py ", " FOLDER, then millrace parity FOLDER"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

/// The report names the tensors with a wider limit for few entries, and those that need it. With all limits halved that is
/// q_norm, at 1.81 times PyTorch's distance.
TEST(ParityInBf16, NamesTensorsWithFewEntries) {
  const auto few = parity("hf_qwen3", "bf16", 1, {"--tolerance", "0.5"});
  EXPECT_NE(few.out.find("few entries: limits wider than 1.00 for grad.model.layers.*.self_attn.k_norm.weight, "
                         "grad.model.layers.*.self_attn.q_norm.weight; beyond 1.00: grad.model.layers."),
            std::string::npos)
      << few.out << few.err;
  const auto none = parity("hf_gpt2", "bf16", 1, {});
  EXPECT_EQ(none.out.find("few entries"), std::string::npos) << none.out;
}

/// Every layer's attention is in one stage, its MLP or experts in the next.
TEST(ParityOfDividedLayers, HasTheBitsOfWholeOnes) {
  const auto folders = std::vector<std::pair<std::string, int>>{{"hf_gpt2", 3},
                                                                {"hf_gemma2", 4},
                                                                {"hf_olmo3", 4},
                                                                {"hf_qwen3_next", 4},
                                                                {"maxtext_gpt3", 2},
                                                                {"maxtext_deepseek_mhc", 2},
                                                                {"maxtext_deepseek_engram", 3},
                                                                {"maxtext_deepseek_indexer_warmup", 2}};
  for (const auto& [model, layers] : folders) {
    std::string layout = "E a";
    for (int layer = 1; layer < layers; ++layer) layout += " | f a";
    layout += " | f H";
    const auto whole = parity(model, "fp32", 1, {});
    const auto divided = parity(model, "fp32", 1, {"--ranks", std::to_string(layers + 1), "--layout", layout});
    EXPECT_EQ(divided.code, 0) << model << ": " << divided.out << divided.err;
    EXPECT_EQ(printed_hash(divided.out), printed_hash(whole.out)) << model;
  }
  for (const std::string model : {"hf_gemma4_small", "maxtext_simple"}) {
    const std::string layout = model == "maxtext_simple" ? "E a | f t*2 H" : "E a | f t*4 H";
    const auto refused = parity(model, "fp32", 1, {"--ranks", "2", "--layout", layout});
    EXPECT_EQ(refused.code, static_cast<int>(ExitCode::model)) << model << ": " << refused.out << refused.err;
  }
}

/// A copy of tests/golden/hf_gpt2 that can be changed.
struct Folder {
  Folder() { std::filesystem::copy(source_path("tests/golden/hf_gpt2"), folder.path()); }
  [[nodiscard]] JobResult parity() const { return run_job(1, {"parity", folder.path().string(), "--dtype", "bf16"}); }
  TemporaryFolder folder;
};

TEST(ParityInBf16, OnlyMeasuresWithoutPyTorchsDistances) {
  const Folder copy;
  std::filesystem::remove(copy.folder / "bf16.json");
  const auto result = copy.parity();
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("no verdict: the folder has no bf16.json"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("| ok"), std::string::npos) << result.out;
}

/// An epsilon of 1e-2 instead of 1e-5 changes the logits by more than bf16 does.
TEST(ParityInBf16, FindsAnotherEpsilon) {
  const Folder copy;
  std::ifstream in(copy.folder / "config.json");
  auto config = nlohmann::json::parse(in);
  config["layer_norm_epsilon"] = 1e-2;
  copy.folder.write("config.json", config.dump());
  const auto result = copy.parity();
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_NE(result.out.find("BEYOND"), std::string::npos) << result.out;
}

TEST(ParityTolerance, IsHeld) {
  const auto strict = run_job(1, {"parity", "tests/golden/hf_llama", "--tolerance", "1e-6"});
  EXPECT_EQ(strict.code, 1) << strict.out << strict.err;
}

}  // namespace
}  // namespace millrace::tests
