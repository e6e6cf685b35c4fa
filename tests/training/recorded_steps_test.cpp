#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

// `millrace parity` on folders of recorded steps: six steps that MaxText trained are trained again, with its learning rate, clipping, decay
// and optimizer, and every step's scalars and the parameters after three and six of them are within tolerance, with one hash in all
// layouts.
namespace millrace::tests {
namespace {

struct Layout {
  std::string name;
  int processes;
  std::vector<std::string> words;
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

JobResult parity(const std::string& folder, int processes, const std::vector<std::string>& more) {
  std::vector<std::string> words{"parity", folder};
  words.insert(words.end(), more.begin(), more.end());
  return run_job(processes, words);
}

class RecordedSteps : public ::testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(RecordedSteps, AreTrainedAgainWithTheBitsOfOneRank) {
  static std::map<std::string, JobResult> alone;
  const auto& [optimizer, layout] = GetParam();
  const auto folder = "tests/golden/maxtext_train_" + optimizer;
  auto [found, is_new] = alone.try_emplace(optimizer);
  if (is_new) found->second = parity(folder, 1, {});
  const auto& expected = found->second;
  ASSERT_EQ(expected.code, 0) << expected.out << expected.err;
  for (std::size_t at = 0; at < expected.err.size(); at = expected.err.find('\n', at) + 1)
    EXPECT_NE(expected.err.find(": training ", at), std::string::npos) << "a key is unknown: " << expected.err;
  ASSERT_EQ(printed_hash(expected.out).size(), 32U) << expected.out;
  for (const char* line : {"step.loss ", "step.param_norm ", "step.current_learning_rate ", "after3 parameters"})
    EXPECT_NE(expected.out.find(line), std::string::npos) << line << " is missing in\n" << expected.out;
  const auto here = parity(folder, layout.processes, layout.words);
  ASSERT_EQ(here.code, 0) << here.out << here.err;
  EXPECT_EQ(printed_hash(here.out), printed_hash(expected.out));
}

INSTANTIATE_TEST_SUITE_P(Golden, RecordedSteps,
                         ::testing::Combine(::testing::Values("adamw", "sgd", "adam_pax", "muon", "skip_spikes", "accumulation",
                                                              "mixtral_accumulation", "qk_clip", "scanned"),
                                            ::testing::ValuesIn(std::vector<Layout>{
                                                {"three_ranks_1f1b", 1, {"--ranks", "3"}},
                                                {"four_ranks_zb_h1", 1, {"--ranks", "4", "--schedule", "zb-h1"}},
                                                {"two_processes_two_chunks", 2, {"--chunks", "2"}},
                                            })),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<1>(one.param).name; });

/// A copy of the recorded AdamW steps with other keys in config.json.
class ChangedRecording : public ::testing::Test {
 protected:
  JobResult parity_with(const nlohmann::json& changes, const std::string& optimizer = "adamw") {
    const TemporaryFolder folder;
    std::filesystem::copy(source_path("tests/golden/maxtext_train_" + optimizer), folder.path());
    std::ifstream in(folder / "config.json");
    auto config = nlohmann::json::parse(in);
    config.update(changes);
    folder.write("config.json", config.dump());
    return parity(folder.path().string(), 1, {});
  }
};

// Every number of the training matters: with another value the steps differ from the recording.
TEST_F(ChangedRecording, IsMissed) {
  for (const auto& change : std::vector<nlohmann::json>{{{"adam_b1", 0.8}},
                                                        {{"adam_b2", 0.9}},
                                                        {{"adam_eps", 1e-2}},
                                                        {{"adam_weight_decay", 0.3}},
                                                        {{"adamw_mask", {"scale$"}}},
                                                        {{"trainable_parameters_mask", {"mlp"}}},
                                                        {{"gradient_clipping_threshold", 2.0}},
                                                        {{"learning_rate", 0.021}},
                                                        {{"learning_rate_final_fraction", 0.2}},
                                                        {{"learning_rate_schedule_steps", 11}},
                                                        {{"warmup_steps_fraction", 0.1}},
                                                        {{"lr_schedule_type", "wsd"}},
                                                        {{"opt_type", "sgd"}}}) {
    const auto result = parity_with(change);
    EXPECT_EQ(result.code, 1) << change << "\n" << result.out << result.err;
    EXPECT_NE(result.out.find("BEYOND TOLERANCE"), std::string::npos) << change;
  }
}

TEST_F(ChangedRecording, OfMuonIsMissed) {
  for (const auto& change : std::vector<nlohmann::json>{{{"muon_beta", 0.9}},
                                                        {{"muon_consistent_rms", 0.2}},
                                                        {{"muon_weight_decay", 0.1}},
                                                        {{"adam_b1", 0.8}},
                                                        {{"adam_weight_decay", 0.3}},
                                                        {{"opt_type", "adamw"}}}) {
    const auto result = parity_with(change, "muon");
    EXPECT_EQ(result.code, 1) << change << "\n" << result.out << result.err;
    EXPECT_NE(result.out.find("BEYOND TOLERANCE"), std::string::npos) << change;
  }
  const auto masked = parity_with({{"adamw_mask", {"scale$"}}}, "muon");  // which MaxText's Muon does not read
  EXPECT_EQ(masked.code, 0) << masked.out << masked.err;
}

TEST_F(ChangedRecording, OfARecipeIsMissed) {
  const std::pair<const char*, nlohmann::json> cases[] = {
      {"skip_spikes", {{"skip_step_on_spikes", false}}},
      {"skip_spikes", {{"skip_step_scaling_factor", 6.0}}},
      {"skip_spikes", {{"skip_step_interval", 16}}},
      {"mixtral_accumulation", {{"gradient_accumulation_steps", 1}}},
      {"mixtral_accumulation", {{"gradient_accumulation_steps", 4}}},
      {"qk_clip", {{"use_qk_clip", false}}},
      {"qk_clip", {{"qk_clip_threshold", 1.6}}},
      {"scanned", {{"routed_bias_update_rate", 0.0}}},
      {"scanned", {{"mtp_loss_scaling_factor", 0.1}}},
  };
  for (const auto& [recording, change] : cases) {
    const auto result = parity_with(change, recording);
    EXPECT_EQ(result.code, 1) << change << "\n" << result.out << result.err;
    EXPECT_NE(result.out.find("BEYOND TOLERANCE"), std::string::npos) << change;
  }
}

TEST_F(ChangedRecording, IsRefusedWhereItNeedsWhatIsNotHere) {
  const std::pair<nlohmann::json, std::vector<std::string>> cases[] = {
      {{{"opt_type", "lion"}}, {"opt_type = \"lion\"", "expected adamw, adam_pax, sgd or muon"}},
      {{{"gradient_accumulation_steps", 3}}, {"gradient_accumulation_steps = 3", "the 2 rows of a step"}},
      {{{"use_tunix_gradient_accumulation", true}}, {"use_tunix_gradient_accumulation = true", "divided by its valid targets"}},
      {{{"mu_dtype", "float16"}}, {"mu_dtype = \"float16\"", "expected float32 or bfloat16"}},
      {{{"adam_eps_root", 1e-3}}, {"adam_eps_root = 0.001", "outside of the root"}},
      {{{"num_experts", 4}}, {"num_experts = 4"}},
  };
  for (const auto& [change, sentence] : cases) {
    const auto result = parity_with(change);
    EXPECT_EQ(result.code, 5) << change << "\n" << result.out << result.err;
    for (const auto& part : sentence) EXPECT_NE(result.err.find(part), std::string::npos) << part << " is missing in\n" << result.err;
  }
}

}  // namespace
}  // namespace millrace::tests
