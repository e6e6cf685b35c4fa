#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "kernels/base/check.hpp"
#include "runtime/io/tensor_folder.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"

// Conversion of model folders, from the user's point of view.
namespace millrace::tests {
namespace {

std::string golden(const std::string& name) { return source_path("tests/golden/" + name); }

/// Writes 4096 tokens below 128 in llm.c's format.
void write_tokens(const TemporaryFolder& folder) {
  std::string bytes(1024 + 2 * 4096, '\0');
  const std::int32_t header[3] = {20240520, 1, 4096};
  std::memcpy(bytes.data(), header, sizeof header);
  for (std::size_t i = 0; i < 4096; ++i) bytes[1024 + 2 * i] = static_cast<char>(i * i % 127);
  folder.write("tokens.bin", bytes);
}

class Convert : public ::testing::Test {
 protected:
  [[nodiscard]] static CommandResult convert(const Words& words) { return run_millrace(joined({"convert"}, words)); }
  TemporaryFolder folder_;
};

TEST_F(Convert, AFolderGoesInAndOutWithItsTokenizer) {
  std::filesystem::copy(golden("hf_qwen3"), folder_ / "from");
  folder_.write("from/tokenizer.json", "{\"a\": 1}");
  folder_.write("from/notes.txt", "not the model's");
  std::filesystem::create_directories(folder_ / "a/to");  // an empty folder may be overwritten
  const auto result = convert({folder_ / "from/", folder_ / "a/to"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"qwen3", "fp32"});
  EXPECT_EQ(read_file(folder_ / "a/to/tokenizer.json"), "{\"a\": 1}");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/to/notes.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/to.tmp"));
  // Converting again gives the same file: it contains neither time nor place.
  ASSERT_EQ(convert({folder_ / "a/to", folder_ / "again"}).code, 0);
  EXPECT_EQ(read_file(folder_ / "again/model.safetensors"), read_file(folder_ / "a/to/model.safetensors"));
  EXPECT_EQ(read_file(folder_ / "again/config.json"), read_file(folder_ / "a/to/config.json"));
}

TEST_F(Convert, Bf16IsAskedForAndKept) {
  ASSERT_EQ(convert({golden("maxtext_llama2"), folder_ / "half", "--dtype", "bf16"}).code, 0);
  const auto again = convert({folder_ / "half", folder_ / "again"});
  expect_parts(again.out, {"in bf16"});
  EXPECT_EQ(read_file(folder_ / "again/model.safetensors"), read_file(folder_ / "half/model.safetensors"));
  const runtime::TensorSource source(folder_ / "half");
  for (const auto& name : source.names()) EXPECT_EQ(source.at(name).dtype, runtime::FileDType::bf16) << name;
}

TEST_F(Convert, Gpt2GoesThroughLlmcAndTrainsFromIt) {
  ASSERT_EQ(convert({golden("hf_gpt2"), folder_ / "folder"}).code, 0);
  const auto result = convert({golden("hf_gpt2"), folder_ / "gpt2.bin", "--format", "llmc"});
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(convert({folder_ / "gpt2.bin", folder_ / "back"}).code, 0);
  EXPECT_EQ(read_file(folder_ / "back/model.safetensors"), read_file(folder_ / "folder/model.safetensors"));
  write_tokens(folder_);
  const auto train = [&](const std::string& from) {
    return run_millrace({"train", "model.from=" + from, "data.tokens=" + folder_ / "tokens.bin", "train.steps=2", "train.sequence=16",
                         "train.threads=1", "run.directory=" + from + ".run"});
  };
  const auto by_file = train(folder_ / "gpt2.bin"), by_folder = train(folder_ / "folder");
  ASSERT_EQ(by_file.code, 0) << by_file.err;
  ASSERT_EQ(by_folder.code, 0) << by_folder.err;
  EXPECT_EQ(run_millrace({"ckpt", "hash", folder_ / "gpt2.bin.run"}).out, run_millrace({"ckpt", "hash", folder_ / "folder.run"}).out);
}

TEST_F(Convert, NothingIsOverwrittenAndNoHalfIsLeft) {
  folder_.write("there/file", "mine");
  expect_failure(convert({golden("hf_llama"), folder_ / "there"}), ExitCode::usage, {"there", "1 entry (file", "expected an empty"});
  EXPECT_EQ(read_file(folder_ / "there/file"), "mine");
  expect_failure(convert({golden("hf_gpt2"), folder_ / "there/file", "--format", "llmc"}), ExitCode::usage, {"exists already"});
  expect_failure(convert({golden("hf_llama"), folder_ / "llama.bin", "--format", "llmc"}), ExitCode::model,
                 {"model.family = llama", "gpt2"});
  expect_failure(convert({golden("hf_llama"), folder_ / "x", "--format", "lmc"}), ExitCode::usage, {"did you mean llmc?"});
  expect_failure(convert({golden("hf_llama"), folder_ / "x", "--dtype", "fp8"}), ExitCode::usage, {"fp8", "fp32 or bf16"});
  expect_failure(convert({golden("hf_llama")}), ExitCode::usage, {"1 path, expected FROM and TO"});
  // A truncated tensor is detected while TO is written.
  std::filesystem::copy(golden("hf_llama"), folder_ / "cut");
  std::filesystem::permissions(folder_ / "cut/model.safetensors", std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  std::filesystem::resize_file(folder_ / "cut/model.safetensors", 100'000);
  expect_failure(convert({folder_ / "cut", folder_ / "x"}), ExitCode::model, {"cut/model.safetensors"});
  // The disk fails in the middle of the weights.
  const auto full = run_millrace({"convert", golden("hf_llama"), folder_ / "x"}, "MILLRACE_FAULT=io:op=write:call=3:enospc");
  expect_failure(full, ExitCode::storage, {"x.tmp/model.safetensors"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "llama.bin.tmp"));
}

/// Missing weights of a huge model are detected quickly.
TEST_F(Convert, AModelOfManyLayersIsRefusedSoon) {
  std::filesystem::copy(golden("hf_llama"), folder_ / "deep");
  auto text = read_file(folder_ / "deep/config.json");
  const std::string three = "\"num_hidden_layers\": 3";
  ASSERT_NE(text.find(three), std::string::npos);
  for (const auto& [layers, words] :
       {std::pair<std::string, Words>{"4096", {"36837 missing", "and 36827 more"}}, {"4097", {"1 to 4096"}}}) {
    auto changed = text;
    folder_.write("deep/config.json", changed.replace(changed.find(three), three.size(), "\"num_hidden_layers\": " + layers));
    expect_failure(convert({folder_ / "deep", folder_ / "x"}), ExitCode::model, words);
  }
}

/// MaxText's blocks trained from scratch: the same bits on one rank and on two, exported as a folder and imported again.
TEST_F(Convert, MaxTextsBlocksTrainFromScratch) {
  write_stories(folder_, 40);
  const auto train = [&](const std::string& name, const Words& more) {
    const Words words{"train",
                      "model.numerics=maxtext",
                      "model.vocab_size=257",
                      "model.hidden_size=32",
                      "model.intermediate_size=64",
                      "model.layers=3",
                      "model.heads=4",
                      "data.text=" + folder_ / "text",
                      "train.steps=3",
                      "train.sequence=32",
                      "train.batch=2",
                      "train.microbatches=2",
                      "train.threads=1",
                      "train.z_loss=0.0001",
                      "run.directory=" + folder_ / name};
    const auto result = run_millrace(joined(words, more));
    EXPECT_EQ(result.code, 0) << result.err;
    return run_millrace({"ckpt", "hash", folder_ / name}).out;
  };
  const Words llama{
      "model.family=llama2",        "model.kv_heads=2", "model.rope=llama3", "model.rope_factor=8", "model.rope_original_max_position=16",
      "model.rope_interleaved=true"};
  EXPECT_EQ(train("llama_1", llama), train("llama_2", joined(llama, {"pipeline.ranks=2"})));
  const Words gemma2{"model.family=gemma2",         "model.activation=gelu",           "model.tie_word_embeddings=true",
                     "model.rms_norm_eps=1e-6",     "model.sliding_window=8",          "model.attn_logit_softcapping=50",
                     "model.rope_local_theta=1000", "model.final_logit_softcapping=30"};
  EXPECT_EQ(train("gemma2_1", gemma2), train("gemma2_2", joined(gemma2, {"pipeline.ranks=2", "rematerialize.policy=minimal"})));
  ASSERT_EQ(run_millrace({"ckpt", "export-hf", folder_ / "gemma2_1", folder_ / "gemma2"}).code, 0);
  train("gemma2_3", {"model.from=" + folder_ / "gemma2", "model.family=gemma2"});
  const Words gpt3{"model.family=gpt3",
                   "model.activation=gelu",
                   "model.gated_mlp=false",
                   "model.fused_qkv=true",
                   "model.learned_positions=64",
                   "model.tie_word_embeddings=true",
                   "model.normalize_embedding_logits=false"};
  const auto hash = train("gpt3_1", gpt3);
  EXPECT_EQ(hash, train("gpt3_2", joined(gpt3, {"pipeline.ranks=2", "pipeline.schedule=zb-h1"})));
  ASSERT_EQ(run_millrace({"ckpt", "export-hf", folder_ / "gpt3_1", folder_ / "out"}).code, 0);
  ASSERT_EQ(convert({folder_ / "out", folder_ / "again"}).code, 0);
  EXPECT_EQ(read_file(folder_ / "out/model.safetensors"), read_file(folder_ / "again/model.safetensors"));
  train("gpt3_3", {"model.from=" + folder_ / "again", "model.family=gpt3"});
}

}  // namespace
}  // namespace millrace::tests
