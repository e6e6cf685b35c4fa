// Wrong input files of a run: each gives one message and the documented exit code, and nothing is written.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/base/check.hpp"
#include "layers/formats/model_folder.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

class BadInput : public ::testing::Test {
 protected:
  BadInput() {
    std::string text;
    for (int line = 0; line < 300; ++line) text += "line " + std::to_string(line) + "\n";
    for (const char* name : {"text/a.txt", "text/b.txt"}) folder_.write(name, text);
    model_.vocab_size = 257;
    model_.hidden_size = 16;
    model_.intermediate_size = 24;
    model_.layers = 1;
    model_.heads = model_.kv_heads = 2;
    model_.head_dim = 8;
    write_model(model_);
  }

  void write_model(const layers::ModelConfig& model) const {
    std::vector<float> elements;
    const auto zeros = [&](const layers::ParameterSpec& spec) -> std::span<const float> {
      elements.assign(static_cast<std::size_t>(spec.shape.elements()), 0.0F);
      return elements;
    };
    layers::export_model_folder(folder_ / "model", {model}, kernels::DType::f32, zeros);
  }

  [[nodiscard]] CommandResult train(const Words& more = {}) const {
    const Words words{"train",
                      "run.directory=" + folder_ / "run",
                      "model.from=" + folder_ / "model",
                      "data.text=" + folder_ / "text",
                      "data.held_out=0",
                      "train.steps=1",
                      "train.batch=1",
                      "train.microbatches=1",
                      "train.sequence=16",
                      "train.threads=1"};
    return run_millrace(joined(words, more));
  }

  void expect(const CommandResult& result, ExitCode code, const Words& parts) const {
    expect_failure(result, code, parts);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run/metrics.jsonl"));
  }

  [[nodiscard]] std::string weights() const { return folder_ / "model/model.safetensors"; }

  TemporaryFolder folder_;
  layers::ModelConfig model_;
};

TEST_F(BadInput, TheInputItselfIsGood) { EXPECT_EQ(train().code, 0); }

TEST_F(BadInput, TruncatedWeights) {
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) - 100);
  expect(train(), ExitCode::model, {"model.safetensors"});
}

TEST_F(BadInput, AHeaderThatClaimsTooMuch) {
  std::fstream file(weights(), std::ios::in | std::ios::out | std::ios::binary);
  const std::uint64_t size = ~std::uint64_t{0} >> 1;
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file.close();
  expect(train(), ExitCode::model, {"model.safetensors"});
}

TEST_F(BadInput, MissingTensors) {
  auto text = read_file(folder_ / "model/config.json");
  const std::string one = "\"num_hidden_layers\": 1";
  ASSERT_NE(text.find(one), std::string::npos) << text;
  text.replace(text.find(one), one.size(), "\"num_hidden_layers\": 2");
  folder_.write("model/config.json", text);
  expect(train(), ExitCode::model, {"missing", "model.layers.1."});
}

TEST_F(BadInput, TensorsOfAnotherModel) {
  const auto config = folder_ / "model/config.json";
  std::filesystem::copy_file(config, folder_ / "kept.json");
  auto other = model_;
  other.layers = 2;
  other.intermediate_size = 32;
  write_model(other);
  std::filesystem::copy_file(folder_ / "kept.json", config, std::filesystem::copy_options::overwrite_existing);
  expect(train(), ExitCode::model, {"unexpected", "model.layers.1.", "model.layers.0.mlp.up_proj.weight", "[32, 16]", "[24, 16]"});
}

TEST_F(BadInput, NoConfig) {
  std::filesystem::remove(folder_ / "model/config.json");
  expect(train(), ExitCode::model, {"config.json"});
}

TEST_F(BadInput, AnotherFamily) {
  folder_.write("model/config.json", R"({"model_type": "mamba", "vocab_size": 257, "hidden_size": 16})");
  expect(train(), ExitCode::model, {"config.json", "mamba", "llama"});
}

TEST_F(BadInput, EmptyFolderOfText) {
  std::filesystem::create_directory(folder_ / "empty");
  expect(train({"data.text=" + folder_ / "empty"}), ExitCode::data, {folder_ / "empty"});
}

TEST_F(BadInput, EmptyText) {
  folder_.write("blank.txt", "");
  expect(train({"data.text=" + folder_ / "blank.txt"}), ExitCode::data, {"token"});
}

TEST_F(BadInput, TokensThatAreNone) {
  folder_.write("tokens.bin", "abc");
  expect(train({"data.text=", "data.tokens=" + folder_ / "tokens.bin"}), ExitCode::data, {"tokens.bin"});
}

TEST_F(BadInput, ProcessesThatDoNotDivideTheRanks) {
  expect_failure(
      run_millrace({"train", "configs/runs/tiny.toml", "run.directory=", "pipeline.ranks=3"}, on_processes(2)), ExitCode::usage,
      {"2 processes for 3 ranks", "mpirun -np one of 1, 3, or give it ranks for the processes: pipeline.ranks=2 or mesh.data=2"});
}

}  // namespace
}  // namespace millrace::tests
