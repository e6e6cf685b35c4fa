#include "configs/presets.hpp"

#include <cstdlib>

#include "tests/configs/support.hpp"
#include "tests/support/paths.hpp"

namespace millrace::configs {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

/// Number of parameters of a Llama.
std::int64_t parameters(const layers::ModelConfig& model) {
  const std::int64_t attention = model.hidden_size * model.head_dim * (2 * model.heads + 2 * model.kv_heads);
  const std::int64_t layer = attention + 3 * model.hidden_size * model.intermediate_size + 2 * model.hidden_size;
  return model.layers * layer + model.hidden_size + model.vocab_size * model.hidden_size * (model.tie_word_embeddings ? 1 : 2);
}

TEST(Presets, AreTheSizesTheyAreNamedAfter) {
  const auto size = [](const std::string& preset) {
    return parameters(load_text("data.tokens = 'x.bin'\n", {"model.preset=" + preset}).config.model);
  };
  EXPECT_EQ(size("llama3-8b"), 8030261248);
  EXPECT_NEAR(static_cast<double>(size("llama-125m")), 125e6, 5e6);
  EXPECT_NEAR(static_cast<double>(size("bench-32m")), 32e6, 1e6);
  EXPECT_NEAR(static_cast<double>(size("quickstart-1m")), 0.9e6, 0.05e6);
  EXPECT_LT(size("tiny"), 70000);
}

TEST(Presets, AndRunsAllLoad) {
  const std::filesystem::path configs = std::filesystem::path(tests::source_path("configs"));
  EXPECT_GE(preset_names(configs / "models").size(), 5u);
  for (const std::string& name : preset_names(configs / "models")) {
    EXPECT_GT(load_text("data.tokens = 'x.bin'\n", {"model.preset=" + name}).config.model.layers, 0) << name;
  }
  EXPECT_EQ(preset_names(configs / "runs"), (std::vector<std::string>{"accumulation", "average", "cuda-1b", "engram", "experts", "mtp",
                                                                      "muon", "qk-clip", "quickstart", "ramp-up", "skip-steps", "tiny"}));
  for (const std::string& name : preset_names(configs / "runs")) {
    const LoadedRun run = load(request_for((configs / "runs" / (name + ".toml")).string()));
    EXPECT_TRUE(run.warnings.empty()) << name << ": " << run.warnings[0];
  }
}

TEST(Presets, AreFoundFromTheExecutable) { EXPECT_TRUE(std::filesystem::exists(find_configs_folder() / "models" / "tiny.toml")); }

TEST(Presets, OfAFolderThatTheEnvironmentNamesComeFirst) {
  const TemporaryFolder folder;
  folder.write("mine.toml", "");
  std::filesystem::create_directories(folder.path() / "share/configs/models");
  setenv("MILLRACE_SHARE", (folder.path() / "share").c_str(), 1);
  EXPECT_EQ(find_configs_folder(), folder.path() / "share/configs");
  setenv("MILLRACE_SHARE", folder.path().c_str(), 1);
  expect_error([] { (void)find_configs_folder(); }, ExitCode::config,
               {"MILLRACE_SHARE = " + folder.path().string() + ", expected a folder with configs/models"});
  unsetenv("MILLRACE_SHARE");
  EXPECT_TRUE(configs_folders().back().string().ends_with("share/millrace/configs"))
      << "the last place is the prefix that the build installs to";
}

TEST(Presets, OfRunsAreFoundByNameUnlessThereIsSuchAFile) {
  const TemporaryFolder folder;
  const auto own = folder.write("own.toml", ""), installed = folder.write("runs/quickstart.toml", "");
  EXPECT_EQ(find_run(own, folder.path() / "runs"), own);
  EXPECT_EQ(find_run("quickstart", folder.path() / "runs"), installed);
  EXPECT_EQ(find_run("quickstart.toml", folder.path() / "runs"), installed);
  // A folder of that name, such as the run directory, is none.
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(folder.path() / "quickstart");
  std::filesystem::create_directory(folder.path() / "other");
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(find_run("quickstart", folder.path() / "runs"), installed);
  EXPECT_EQ(find_run("other", folder.path() / "runs"), "other") << "refused where it is read";
  std::filesystem::current_path(before);
  for (const char* word : {"quickstrt", "runs/quickstrt.toml"})
    expect_error([&] { (void)find_run(word, folder.path() / "runs"); }, ExitCode::config,
                 {word, "no such file, expected one, or one of the runs in " + (folder.path() / "runs").string() + ": quickstart",
                  "did you mean quickstart?"});
}

TEST(Presets, MayBeFilesOfTheUser) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("mine.toml", "[model]\nvocab_size = 300\nhidden_size = 16\nintermediate_size = 32\nlayers = 1\nheads = 2\n");
  EXPECT_EQ(load_text("data.text = 'x'\n", {"model.preset=" + file}).config.model.hidden_size, 16);
}

TEST(Presets, HoldSizesAlone) {
  const TemporaryFolder folder;
  const auto file = folder.write("mine.toml", "model.layers = 1\ntrain.steps = 5\n");
  expect_error([&] { (void)load_text("data.text = 'x'\n", {"model.preset=" + file}); }, ExitCode::config,
               {"mine.toml:2:7", "train.steps in a preset, expected only the model's sizes"});
  const auto nested = folder.write("nested.toml", "model.preset = 'tiny'\n");
  expect_error([&] { (void)load_text("data.text = 'x'\n", {"model.preset=" + nested}); }, ExitCode::config, {"model.preset in a preset"});
  const auto bare = folder.write("bare.toml", "layers = 1\nexperts = 8\n");  // experts is also a section of run descriptions
  expect_error([&] { (void)load_text("data.text = 'x'\n", {"model.preset=" + bare}); }, ExitCode::config,
               {"bare.toml:2:1: experts = 8 in no section, expected [model] above it"});
}

}  // namespace
}  // namespace millrace::configs
