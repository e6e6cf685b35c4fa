#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/paths.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"
#include "tools/commands/progress_bar.hpp"

namespace millrace::tests {
namespace {

const std::string tokenizer_folder = source_path("tests/golden/tokenizers/");

TEST(Data, TokenizesFilesAndLooksIntoWhatItMade) {
  const TemporaryFolder folder;
  folder.write("in/a.txt", "Hello");
  folder.write("in/b.txt", "");
  folder.write("in/c.md", "not taken");
  folder.write("in/d.jsonl", "{\"text\": \"A\\u00e9\"}\n\n{\"text\": \"\", \"id\": 7}\r\n{\"id\": 8, \"text\": \"B\"}");
  const auto made = run_millrace({"data", "tokenize", "--tokenizer", "byte", "--out", folder / "new/out.bin", "--suffix", ".txt",
                                  "--suffix", ".jsonl", folder / "in"});
  ASSERT_EQ(made.code, 0) << made.err;
  expect_parts(made.out, {"out.bin", "out.idx", "12 tokens of 16 bits in 3 documents", "3 files", "end with token 256"});
  for (const char* name : {"new/out", "new/out.bin"}) {
    const auto seen = run_millrace({"data", "inspect", folder / name, "--tokenizer", "byte"});
    ASSERT_EQ(seen.code, 0) << seen.err;
    expect_parts(seen.out, {"Megatron", "tokens     12", "documents  3", "72 101 108 108 111 256 65 195 169 256 66 256", "HelloA\u00e9B"});
  }
  expect_failure(run_millrace({"data", "tokenize", "--tokenizer", "byte", "--out", folder / "new/", folder / "in/a.txt"}), ExitCode::usage,
                 {"new/: a folder, expected a name in it, such as ", "new/tokens"});
  const auto llmc = run_millrace({"data", "tokenize", "--tokenizer", tokenizer_folder + "llama3.json", "--format", "llmc", "--prepend-bod",
                                  "--out", folder / "out.llmc", folder / "in/a.txt"});
  ASSERT_EQ(llmc.code, 0) << llmc.err;
  const auto seen = run_millrace({"data", "inspect", folder / "out.llmc", "--tokenizer", tokenizer_folder + "llama3.json"});
  expect_parts(seen.out, {"llm.c, 16 bits", "1 ends of documents", "text       Hello\n"});
}

TEST(Data, LooksIntoAFolderOfText) {
  const TemporaryFolder folder;
  folder.write("text/a.txt", "12345");
  folder.write("text/b.md", "123");
  const auto seen = run_millrace({"data", "inspect", folder / "text"});
  EXPECT_EQ(seen.code, 0) << seen.err;
  expect_parts(seen.out, {"data      10 tokens in 2 files for training", "6 tokens  " + (folder / "text/a.txt"),
                          "4 tokens  " + (folder / "text/b.md")});
  std::filesystem::create_directory_symlink(folder / "text", folder / "link");
  expect_parts(run_millrace({"data", "inspect", folder / "link"}).out, {"data      10 tokens in 2 files for training"});
  // Token files beside text are what such a folder is for.
  folder.write("text/c.bin", "1234");
  expect_parts(run_millrace({"data", "inspect", folder / "text"}).out,
               {"data      2 tokens in 1 file for training",
                "\npassed over 2 files without .bin at the end, such as " + (folder / "text/a.txt") + "; data.text="});
  std::filesystem::remove(folder / "text/a.txt");
  std::filesystem::remove(folder / "text/b.md");
  EXPECT_EQ(run_millrace({"data", "inspect", folder / "text"}).out.find("passed over"), std::string::npos);
}

TEST(Data, DoubtsLinesOfJsonAsText) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl", "{\"text\": \"" + std::string(100, 'a') + "\"}\n");
  const std::string doubt = file + " is read as it is, with its braces and keys; `millrace data tokenize` makes tokens";
  expect_parts(run_millrace({"data", "inspect", file}).err, {doubt});
  expect_parts(run_millrace({"inspect", "configs/runs/tiny.toml", "data.text=" + file}).err, {"command line: data.text: " + doubt});
  const auto named = folder.write("texts/b.txt", "abc");
  const auto lines = folder.write("texts/c.jsonl", "{}\n");
  expect_parts(run_millrace({"inspect", "configs/runs/tiny.toml", "data.text=" + (folder / "texts")}).err, {lines + " is read as it is"});
  EXPECT_EQ(run_millrace({"inspect", "configs/runs/tiny.toml", "data.text=" + (folder / "texts"), "data.suffixes=.txt"}).err, "");
}

TEST(Data, LooksIntoAFileOfText) {
  const TemporaryFolder folder;
  for (const std::size_t size : {99, 100}) {
    const auto file = folder.write("a.txt", std::string(size, 'a'));
    const auto seen = run_millrace({"data", "inspect", file});
    EXPECT_EQ(seen.code, 0) << seen.err;
    expect_parts(seen.out, {"format    text, whose bytes are the tokens", std::to_string(size + 1) + " tokens  " + file});
    expect_failure(run_millrace({"data", "inspect", file, "--tokenizer", "byte"}), ExitCode::data, {file, "text", "data.text=" + file});
    expect_failure(
        run_millrace({"train", "configs/runs/tiny.toml", "data.text=", "data.tokens=" + file, "run.directory=", "sample.tokens=0"}),
        ExitCode::data, {file, "text", "`millrace data tokenize` makes token files from text"});
  }
  expect_failure(run_millrace({"data", "inspect", "a", "b", "c"}), ExitCode::usage, {"inspect with 3 names"});
}

TEST(Data, LooksIntoAnInstalledRun) {
  const auto seen = run_millrace({"data", "inspect", "tiny", "data.text=docs", "data.suffixes=.md"}),
             named = run_millrace({"data", "inspect", "tiny"});
  EXPECT_EQ(seen.code, 0) << seen.err;
  EXPECT_EQ(named.err.find("tiny: cannot be read"), std::string::npos) << named.err;
}

TEST(Data, ATokenizerThatDoesNotFitIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.bin", std::string("\1\0\2\0\0\2", 6));
  expect_failure(run_millrace({"data", "inspect", file, "--tokenizer", "byte"}), ExitCode::data,
                 {file + ": token 2 is 512, --tokenizer byte has 257 ids: expected the tokenizer that made the file"});
}

TEST(Data, AnEmptyTextMakesNoTokens) {
  const TemporaryFolder folder;
  const auto file = folder.write("empty.txt", "");
  expect_failure(
      run_millrace({"data", "tokenize", file, "--tokenizer", "byte", "--out", folder / "out"}), ExitCode::data,
      {file + ": 1 file without text, so there are no tokens to write to " + (folder / "out.bin") + ", " + (folder / "out.idx")});
}

TEST(Data, WhatWasMadeTrains) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "one two three four five\n";
  folder.write("in.txt", text);
  ASSERT_EQ(
      run_millrace({"data", "tokenize", "--tokenizer", tokenizer_folder + "gpt2.json", "--out", folder / "out", folder / "in.txt"}).code,
      0);
  const auto trained = run_millrace({"train", "configs/runs/tiny.toml", "data.text=", "data.tokens=" + (folder / "out"), "data.held_out=0",
                                     "evaluate.every=0", "checkpoint.every=0", "model.vocab_size=1408", "sample.tokens=0", "train.steps=5",
                                     "train.warmup_steps=1", "run.directory="});
  EXPECT_EQ(trained.code, 0) << trained.err;
  expect_parts(trained.out + trained.err, {"step 5/5"});
}

TEST(Data, LeavesNoFileWhereItFails) {
  const TemporaryFolder folder;
  folder.write("good.txt", "text");
  folder.write("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": 1}\n");
  const Words head = {"data", "tokenize", "--tokenizer", "byte", "--out", folder / "out"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), head.begin(), head.end());
    return more;
  };
  expect_failure(run_millrace(with({folder / "bad.jsonl"})), ExitCode::data, {"bad.jsonl:2", "text is missing"});
  expect_failure(run_millrace(with({folder / "none.txt"})), ExitCode::data, {"none.txt"});
  expect_failure(run_millrace(with({folder / "good.txt"}), "MILLRACE_FAULT=io:path=out:op=write:call=1:enospc"), ExitCode::storage,
                 {"out", "No space left"});
  folder.write("long.txt", std::string(5000, 'a'));
  expect_failure(run_millrace(with({folder / "long.txt"}), "prlimit --fsize=4096"), ExitCode::storage, {"out.bin", "File too large"});
  expect_failure(run_millrace(with({})), ExitCode::usage, {"files or folders"});
  expect_failure(run_millrace(with({"--format", "numpy", folder / "good.txt"})), ExitCode::usage, {"numpy", "megatron or llmc"});
  expect_failure(run_millrace({"data", "tokenise"}), ExitCode::usage, {"tokenise", "did you mean tokenize"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out.bin"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
  ASSERT_EQ(run_millrace(with({folder / "good.txt"})).code, 0);
  expect_failure(run_millrace(with({folder / "good.txt"})), ExitCode::usage, {"out.bin", "exists already", "--overwrite"});
  EXPECT_EQ(run_millrace(with({"--overwrite", "--no-eod", folder / "good.txt"})).code, 0);
  expect_parts(run_millrace({"data", "inspect", folder / "out"}).out, {"tokens     4"});
}

TEST(Data, ProgressSaysHowMuchHowFastAndHowLong) {
  EXPECT_EQ(tools::progress_text(0, 1 << 20, 0), "0% of 1.0 MiB");
  expect_parts(tools::progress_text(20000000, 80000000, 2), {"25% of", "10.0 MB/s", "6s left"});
  expect_parts(tools::progress_text(0, 0, 1), {"100%"});
}

/// The table of a vocabulary, and a run whose n-gram memories take their ids from it: the same run as with the tokenizer itself.
TEST(Data, CompressesAVocabulary) {
  const TemporaryFolder folder;
  const auto made = run_millrace({"data", "compress", "--tokenizer", "byte", "--out", folder / "table.safetensors"});
  ASSERT_EQ(made.code, 0) << made.err;
  expect_parts(made.out, {"tokens     257", "model.engram_compressed_vocab_size = 228", "model.engram_compressed_pad_id = 227",
                          "for 2 tokens: \"A\" \"a\"", "table.safetensors"});
  folder.write("in.txt", std::string(3000, 'a') + std::string(3000, 'B'));
  const auto train = [&](const std::string& compression, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train",
                                   "configs/runs/engram.toml",
                                   "data.text=" + (folder / "in.txt"),
                                   "run.directory=",
                                   "train.steps=2",
                                   "train.warmup_steps=1",
                                   "data.held_out=0",
                                   "evaluate.every=0",
                                   "checkpoint.every=0",
                                   "train.sequence=16",
                                   "pipeline.ranks=1",
                                   "data.token_compression=" + compression};
    words.insert(words.end(), more.begin(), more.end());
    return run_millrace(words);
  };
  const auto last_loss = [](const std::string& text) { return text.substr(text.rfind("| loss "), 20); };
  const auto from_table = train(folder / "table.safetensors", {}), from_tokenizer = train("", {});
  ASSERT_EQ(from_table.code, 0) << from_table.err;
  ASSERT_EQ(from_tokenizer.code, 0) << from_tokenizer.err;
  EXPECT_EQ(last_loss(from_table.out), last_loss(from_tokenizer.out));
  const auto other = train("", {"model.engram_compressed_pad_id=3"});
  EXPECT_NE(other.code, 0);
  expect_parts(other.err, {"228 compressed ids and the padding 227", "model.engram_compressed_pad_id = 3"});
  const auto unnamed = run_millrace({"data", "compress", "--tokenizer", "byte", "--out", folder / "table.bin"});
  EXPECT_EQ(unnamed.code, static_cast<int>(ExitCode::usage));
  expect_parts(unnamed.err, {"table.bin", ".safetensors"});
}

}  // namespace
}  // namespace millrace::tests
