#include "layers/formats/llmc_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "layers/formats/config_file.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

// llm.c's file of a GPT-2: a round trip, the bytes that llm.c's own programs would read, and damaged headers.
namespace millrace::layers {
namespace {

using testing::golden_folder;
using tests::expect_error;
using tests::TemporaryFolder;

/// The golden GPT-2, in either form.
class LlmcFile : public ::testing::Test {
 protected:
  LlmcFile() : config_(read_config_file(golden_folder("hf_gpt2")).model), folder_(golden_folder("hf_gpt2"), config_) {}

  std::vector<float> values(const ModelWeights& weights, const ParameterSpec& spec) {
    std::vector<float> result(static_cast<std::size_t>(spec.shape.elements()));
    weights.read(spec, result);
    return result;
  }
  std::string write(const ModelConfig& config, kernels::DType dtype = kernels::DType::f32) {
    std::vector<float> elements;
    write_llmc_file(file_, config, dtype, [&](const ParameterSpec& spec) {
      elements = values(folder_, spec);
      return std::span<const float>(elements);
    });
    return file_;
  }
  /// The file with one int32 of its header changed.
  std::string changed(int field, std::int32_t value) {
    std::fstream stream(write(config_), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(4 * field);
    stream.write(reinterpret_cast<const char*>(&value), sizeof value);
    return file_;
  }

  const ModelConfig config_;
  const FolderWeights folder_;
  TemporaryFolder scratch_;
  const std::string file_ = scratch_ / "gpt2.bin";
};

TEST_F(LlmcFile, ThereAndBackIsTheIdentity) {
  write(config_);
  ASSERT_TRUE(is_llmc_file(file_));
  const auto config = read_config_file(file_);
  auto wanted = config_;
  wanted.initializer_range = config.model.initializer_range;  // which the file does not contain
  EXPECT_EQ(config.model, wanted);
  const auto weights = open_weights(file_, config.model);
  EXPECT_EQ(weights->dtype(), kernels::DType::f32);
  for (const ParameterSpec& spec : model_parameters(config_)) EXPECT_EQ(values(*weights, spec), values(folder_, spec)) << spec.name;
}

TEST_F(LlmcFile, Bf16Rounds) {
  write(config_, kernels::DType::bf16);
  const auto weights = open_weights(file_, config_);
  EXPECT_EQ(weights->dtype(), kernels::DType::bf16);
  for (const ParameterSpec& spec : model_parameters(config_)) {
    auto wanted = values(folder_, spec);
    for (float& value : wanted) value = kernels::to_float(kernels::to_bfloat16(value));
    EXPECT_EQ(values(*weights, spec), wanted) << spec.name;
  }
}

/// Offsets of tensors, counted by hand from their order.
TEST_F(LlmcFile, HasTheLayoutOfLlmc) {
  write(config_);
  std::ifstream stream(file_, std::ios::binary);
  std::vector<std::int32_t> header(256);
  stream.read(reinterpret_cast<char*>(header.data()), 1024);
  const std::int64_t positions = config_.max_position_embeddings, vocabulary = config_.vocab_size, layers = config_.layers,
                     width = config_.hidden_size, padded = (vocabulary + 127) / 128 * 128;
  EXPECT_EQ((std::vector<std::int64_t>(header.begin(), header.begin() + 9)),
            (std::vector<std::int64_t>{20240326, 3, positions, vocabulary, layers, config_.heads, width, padded, 0}));
  std::vector<float> body((std::filesystem::file_size(file_) - 1024) / 4);
  stream.read(reinterpret_cast<char*>(body.data()), static_cast<std::streamsize>(body.size() * 4));
  const auto spec_of = [&](const std::string& name) {
    for (const auto& spec : model_parameters(config_))
      if (spec.name == name) return spec;
    throw std::runtime_error(name);
  };
  const auto table = values(folder_, spec_of("transformer.wte.weight"));
  EXPECT_TRUE(std::equal(table.begin(), table.end(), body.begin()));
  for (std::int64_t i = vocabulary * width; i < padded * width; ++i) ASSERT_EQ(body[static_cast<std::size_t>(i)], 0);
  // qkvw of layer 1 comes after both tables, ln1w and ln1b of all layers, and layer 0's qkvw; outputs are its first axis.
  const std::int64_t begin = padded * width + positions * width + 2 * layers * width + 3 * width * width;
  const auto qkv = values(folder_, spec_of("transformer.h.1.attn.c_attn.weight"));
  for (std::int64_t out = 0; out < 3 * width; ++out)
    for (std::int64_t in = 0; in < width; ++in)
      ASSERT_EQ(body[static_cast<std::size_t>(begin + out * width + in)], qkv[static_cast<std::size_t>(in * 3 * width + out)]);
  // lnfb is the last tensor.
  const auto last = values(folder_, spec_of("transformer.ln_f.bias"));
  EXPECT_TRUE(std::equal(last.begin(), last.end(), body.end() - width));
}

TEST_F(LlmcFile, RowsBeyondTheVocabularyArePaddingAndDropped) {
  ModelConfig config = config_;
  config.vocab_size = 100;
  std::vector<float> elements;
  const auto reader = [&](const ParameterSpec& spec) {
    elements.assign(static_cast<std::size_t>(spec.shape.elements()), static_cast<float>(spec.order + 1));
    return std::span<const float>(elements);
  };
  write_llmc_file(file_, config, kernels::DType::f32, reader);
  std::ifstream stream(file_, std::ios::binary);
  std::vector<float> table(static_cast<std::size_t>(128 * config.hidden_size));
  stream.seekg(1024);
  stream.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(table.size() * 4));
  const auto real = static_cast<std::size_t>(100 * config.hidden_size);
  for (std::size_t i = 0; i < table.size(); ++i) ASSERT_EQ(table[i] != 0, i < real) << i;
  EXPECT_EQ(read_config_file(file_).model.vocab_size, 100);
  const auto weights = open_weights(file_, config);
  for (const ParameterSpec& spec : model_parameters(config)) {
    const auto wanted = reader(spec);
    const auto found = values(*weights, spec);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) << spec.name;
  }
}

TEST_F(LlmcFile, AModelThatTheFormatCannotSayIsRefused) {
  const auto refused = [&](auto change, const char* key) {
    ModelConfig config = config_;
    change(config);
    expect_error([&] { write(config); }, ExitCode::model, {key, "expected"});
    EXPECT_FALSE(std::filesystem::exists(file_));
  };
  refused([](ModelConfig& config) { config.family = "llama"; }, "model.family = llama");
  refused([](ModelConfig& config) { config.tie_word_embeddings = false; }, "model.tie_word_embeddings");
  refused([](ModelConfig& config) { config.intermediate_size = 96; }, "model.intermediate_size = 96");
  refused([](ModelConfig& config) { config.rms_norm_eps = 1e-6; }, "model.rms_norm_eps");
  refused([](ModelConfig& config) { config.causal = false; }, "model.causal = false");
  refused([](ModelConfig& config) { config.hidden_act = kernels::Activation::relu; }, "model.hidden_act = relu");
  refused([](ModelConfig& config) { config.scale_by_layer = true; }, "model.scale_by_layer = true");
  refused([](ModelConfig& config) { config.query_pre_attn_scalar = 1; }, "model.query_pre_attn_scalar = 1");
}

TEST_F(LlmcFile, DamageIsNamed) {
  const auto refuses = [&](int field, std::int32_t value, const std::vector<std::string>& words) {
    expect_error([&] { (void)read_llmc_config(changed(field, value)); }, ExitCode::model, words);
  };
  refuses(0, 20240520, {"begins with 20240520", "20240326"});
  refuses(1, 4, {"version 4", "3 (fp32) or 5 (bf16)"});
  refuses(2, 0, {"max_seq_len = 0"});
  refuses(3, -5, {"vocab_size = -5"});
  refuses(4, 1 << 30, {"num_layers = 1073741824"});
  refuses(4, 4096, {"bytes, expected"});
  refuses(5, 3, {"num_heads = 3", "channels"});
  refuses(6, 1 << 20, {"bytes, expected"});
  refuses(7, 1, {"padded_vocab_size = 1", "vocab_size"});
  std::filesystem::resize_file(write(config_), 1000);
  expect_error([&] { (void)read_llmc_config(file_); }, ExitCode::model, {"1000 bytes", "1024"});
  std::filesystem::resize_file(write(config_), std::filesystem::file_size(write(config_)) - 1);
  expect_error([&] { (void)read_llmc_config(file_); }, ExitCode::model, {"bytes, expected"});
}

TEST_F(LlmcFile, AnotherModelIsRefused) {
  write(config_);
  ModelConfig other = config_;
  other.layers += 1;
  expect_error([&] { (void)open_weights(file_, other); }, ExitCode::model, {"layers = 3, expected 4"});
  other = config_;
  other.family = "llama";
  expect_error([&] { (void)open_weights(file_, other); }, ExitCode::model, {"expected a model of llama"});
}

}  // namespace
}  // namespace millrace::layers
