#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/support/paths.hpp"
#include "tests/tools/run_command.hpp"

// Every command that reads a model folder prints the reader's warnings once, and applies the z-loss.
namespace millrace::tests {
namespace {

using nlohmann::json;

constexpr const char* unknown = "new_switch is not known and not used";
constexpr const char* z_loss = "z_loss_multiplier = 0.01: the loss includes this z-loss";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

class ModelFolderWords : public ::testing::Test {
 protected:
  ModelFolderWords() {
    const std::string golden = source_path("tests/golden/maxtext_llama2_tied_zloss");
    for (const std::string name : {"model", "plain"}) {
      std::filesystem::create_directory(folder_ / name);
      for (const char* file : {"model.safetensors", "golden.safetensors", "tolerance.json"})
        std::filesystem::copy(golden + "/" + file, folder_ / name + "/" + file);
      auto config = json::parse(read_file(golden + "/config.json"));
      config["new_switch"] = true;
      if (name == "plain") config["z_loss_multiplier"] = 0;
      folder_.write(name + "/config.json", config.dump());
    }
    // 4096 tokens of the vocabulary in llm.c's format.
    std::string bytes(1024 + 2 * 4096, '\0');
    const std::int32_t header[3] = {20240520, 1, 4096};
    std::memcpy(bytes.data(), header, sizeof header);
    for (std::size_t i = 0; i < 4096; ++i) bytes[1024 + 2 * i] = static_cast<char>(i * i % 79);
    folder_.write("tokens.bin", bytes);
  }

  /// The arguments for a run of two steps from the folder.
  [[nodiscard]] Words run(const std::string& model = "model") const {
    return {
        "model.from=" + folder_ / model, "data.tokens=" + folder_ / "tokens.bin", "train.steps=2", "train.sequence=16", "train.threads=1",
        "train.warmup_steps=0"};
  }

  /// The command's output, after checking that it has each of the two sentences once.
  CommandResult says_both(const Words& words, const std::string& before = "") {
    SCOPED_TRACE(words.front());
    auto result = run_millrace(words, before);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(count(result.err, unknown), 1) << result.err;
    EXPECT_EQ(count(result.err, z_loss), 1) << result.err;
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(ModelFolderWords, EveryCommandWithARunSaysThem) {
  const Words directory{"run.directory=" + folder_ / "run"};
  says_both(joined({"train"}, joined(run(), directory)));
  EXPECT_NE(read_file(folder_ / "run/run.toml").find("train.z_loss = 0.01\n"), std::string::npos);
  says_both({"replay", folder_ / "run", "--step", "1"});
  says_both(joined({"train", "pipeline.ranks=2"}, run()), on_processes(2));
  says_both(joined({"config", "show"}, run()));
  says_both(joined({"inspect"}, run()));
  says_both(
      joined({"plan", "--out", folder_ / "plan.toml", "--costs", folder_.write("costs.csv", "layer,1,1,1\nembedding,1,0,1\nhead,1,1,1\n")},
             joined(run(), {"pipeline.ranks=2"})));
  says_both(joined({"rehearse", "--steps", "1", folder_ / "plan.toml"}, run()));
  says_both(joined({"debug", "--script", folder_.write("script", "quit\n")}, run()));
  says_both(joined({"profile", "--steps", "1", "--out", folder_ / "profile"}, run()));
}

TEST_F(ModelFolderWords, EveryCommandWithAModelSaysThem) {
  says_both({"parity", folder_ / "model"});
  says_both({"generate", "--model", folder_ / "model", "--tokenizer", "byte", "--prompt", "!", "--tokens", "1"});
  says_both({"eval", "--model", folder_ / "model", "--sequence", "16", "data.tokens=" + folder_ / "tokens.bin"});
  says_both({"convert", folder_ / "model", folder_ / "out"});
}

/// The folder's z-loss is part of the loss of a run and of an evaluation; a run's own key takes precedence, with a message.
TEST_F(ModelFolderWords, TheZLossIsComputed) {
  const auto loss = [&](const std::string& model, const Words& more) {
    const auto result = run_millrace(joined({"train"}, joined(run(model), more)));
    EXPECT_EQ(result.code, 0) << result.err;
    const auto at = result.out.find("loss ");
    return at == std::string::npos ? 0.0 : std::stod(result.out.substr(at + 5));
  };
  const double with = loss("model", {}), without = loss("plain", {});
  EXPECT_GT(with, without + 0.05);  // 0.01 times the square of some log 96
  EXPECT_EQ(with, loss("plain", {"train.z_loss=0.01"}));
  EXPECT_EQ(without, loss("model", {"train.z_loss=0"}));
  const auto own = run_millrace(joined({"config", "show", "train.z_loss=0"}, run()));
  EXPECT_EQ(count(own.err, "command line: train.z_loss = 0.0 overrides z_loss_multiplier = 0.01"), 1) << own.err;

  const auto evaluated = [&](const std::string& model) {
    const auto result =
        run_millrace({"eval", "--model", folder_ / model, "--sequence", "16", "--json", "data.tokens=" + folder_ / "tokens.bin"});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out).at("loss").get<double>();
  };
  EXPECT_GT(evaluated("model"), evaluated("plain") + 0.05);
}

/// transformers' config.json has no key for it, and the export says so.
TEST_F(ModelFolderWords, AnExportThatCannotSayTheZLossTellsSo) {
  const Words words{"train",           "configs/runs/tiny.toml", "data.text=docs/words.md",
                    "data.held_out=0", "sample.tokens=0",        "evaluate.every=0",
                    "train.steps=1",   "train.warmup_steps=0",   "train.sequence=32",
                    "train.threads=1", "train.z_loss=0.01",      "run.directory=" + folder_ / "tiny"};
  const auto trained = run_millrace(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto result = run_millrace({"ckpt", "export-hf", folder_ / "tiny", folder_ / "hf"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(count(result.err, "hf/config.json: transformers has no key for train.z_loss = 0.01: it is not exported"), 1) << result.err;
  EXPECT_EQ(count(result.err, "is not exported"), 1) << result.err;
}

/// The weights of routers' losses are not part of an export either. A mixture is exported as one tensor per expert, and is a model to
/// continue with.
TEST_F(ModelFolderWords, AMixtureIsTrainedExportedAndTrainedOn) {
  const Words words{
      "train",         "configs/runs/tiny.toml", "data.text=docs/words.md", "data.held_out=0", "sample.tokens=0", "evaluate.every=0",
      "train.steps=1", "train.warmup_steps=0",   "train.sequence=32",       "train.threads=1", "pipeline.ranks=2"};
  const auto trained = run_millrace(joined(words, {"model.family=qwen3_moe", "model.experts=4", "model.experts_per_token=2",
                                                   "model.moe_intermediate_size=64", "train.balance_loss=0.02", "train.router_z_loss=0.003",
                                                   "rematerialize.policy=moe_rows,moe_mlpwo", "run.directory=" + folder_ / "tiny"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto result = run_millrace({"ckpt", "export-hf", folder_ / "tiny", folder_ / "hf"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.err, "hf/config.json: transformers has no key for train.router_z_loss = 0.003: it is not exported"), 1)
      << result.err;
  EXPECT_EQ(count(result.err, "hf/config.json: train.balance_loss = 0.02 is not exported: router_aux_loss_coef weighs"), 1) << result.err;
  const auto further =
      run_millrace(joined(words, {"model.preset=", "model.from=" + folder_ / "hf", "run.directory=" + folder_ / "further"}));
  EXPECT_EQ(further.code, 0) << further.err;
  EXPECT_EQ(count(further.out + further.err, "parameters, "), 1) << further.out << further.err;  // "127.9k parameters, 78.8k active"
}

/// The loss of an evaluation has the balance loss beside it, as a term, and the message says so.
TEST_F(ModelFolderWords, TheHeldOutLossExcludesTheBalanceLoss) {
  const auto result = run_millrace({"eval", "--model", source_path("tests/golden/maxtext_mixtral"), "--sequence", "16", "--json",
                                    "data.tokens=" + folder_ / "tokens.bin"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.err, ": training adds this balance loss, the held-out loss excludes it"), 1) << result.err;
  const auto evaluation = json::parse(result.out);
  EXPECT_GT(evaluation.at("moe_lb_loss"), 0) << result.out;
  EXPECT_EQ(evaluation.at("loss"), evaluation.at("lm_loss")) << result.out;
}

/// llm.c's file is a model for every command, not only for convert.
TEST_F(ModelFolderWords, AFileOfLlmcIsAModelToo) {
  const std::string gpt2 = source_path("tests/golden/hf_gpt2"), file = folder_ / "gpt2.bin";
  ASSERT_EQ(run_millrace({"convert", gpt2, file, "--format", "llmc"}).code, 0);
  const auto write = [&](const std::string& model) {
    const auto result =
        run_millrace({"generate", "--model", model, "--tokenizer", "byte", "--prompt", "abc", "--tokens", "5", "--temperature", "0"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(write(file), write(gpt2));
  const auto loss = [&](const std::string& model) {
    const auto result = run_millrace(
        {"eval", "--model", model, "--sequence", "16", "--json", "--microbatches", "2", "data.tokens=" + folder_ / "tokens.bin"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? json::parse(result.out).at("loss_hex").get<std::string>() : result.err;
  };
  EXPECT_EQ(loss(file), loss(gpt2));
  expect_failure(run_millrace({"generate", "--model", folder_ / "tokens.bin", "--prompt", "a", "--tokenizer", "byte"}), ExitCode::model,
                 {"tokens.bin: a file, expected a model folder or llm.c's file of a GPT-2"});
}

}  // namespace
}  // namespace millrace::tests
