#include "runtime/data/run_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::TemporaryFolder;
using Names = std::vector<std::string>;

/// The validation files that are found, below the folder.
Names found(const TemporaryFolder& folder, const Names& tokens) {
  Names names;
  for (const auto& file : find_validation({.tokens = tokens}).files)
    names.push_back(std::filesystem::path(file).lexically_relative(folder.path()).string());
  return names;
}

TEST(RunFiles, FindsTheValidationDataOfLlmcAndNanogpt) {
  const TemporaryFolder folder;
  for (const char* name : {"nano/train.bin", "nano/val.bin", "nano/value.bin", "nano/val.txt", "fine/fineweb_train_000001.bin",
                           "fine/fineweb_train_000002.bin", "fine/fineweb_val_000000.bin", "fine/fineweb_val_000001.bin",
                           "fine/other_val_000000.bin", "tiny/TinyStories_train.bin", "tiny/TinyStories_val.bin", "tiny/trained_val.bin",
                           "tiny/trained.bin", "alone/train.bin", "mega/web-train_text_document.bin", "mega/web-val_text_document.bin"})
    folder.write(name, "xx");
  EXPECT_EQ(found(folder, {folder / "nano/train.bin"}), (Names{"nano/val.bin"}));
  EXPECT_EQ(found(folder, {folder / "fine/fineweb_train_000002.bin"}),
            (Names{"fine/fineweb_val_000000.bin", "fine/fineweb_val_000001.bin"}));
  EXPECT_EQ(found(folder, {folder / "tiny/TinyStories_train.bin"}), (Names{"tiny/TinyStories_val.bin"}));
  EXPECT_EQ(found(folder, {folder / "tiny/trained.bin"}), Names()) << "train is no word of its name";
  EXPECT_EQ(found(folder, {folder / "alone/train.bin"}), Names());
  EXPECT_EQ(found(folder, {folder / "mega/web-train_text_document.bin"}), (Names{"mega/web-val_text_document.bin"}));
  EXPECT_EQ(found(folder, {folder / "nano", folder / "tiny/TinyStories_train.bin"}), (Names{"nano/val.bin", "tiny/TinyStories_val.bin"}));
  EXPECT_EQ(found(folder, {folder / "missing"}), Names()) << "opening the data says so";
  EXPECT_EQ(found(folder, {folder / "nano/train.bin", folder / "nano/val.bin"}), Names()) << "it is named as training data";
  EXPECT_TRUE(find_validation({.tokens = {folder / "nano"}}).in_training);
  EXPECT_FALSE(find_validation({.tokens = {folder / "nano/train.bin"}}).in_training);
  // What it finds is left out of the folder that contains it.
  const auto files = list_run_files({.tokens = {folder / "fine"}, .validation = find_validation({.tokens = {folder / "fine"}}).files});
  EXPECT_EQ(files.left_out, 2);
  EXPECT_EQ(files.sources.front().files.size(), 3U);
  EXPECT_EQ(files.validation.size(), 2U);
}

// The bytes of a token file are no text; but whoever trains on such bytes may evaluate on them.
TEST(RunFiles, ATextRunTakesNoTokenFileForValidation) {
  const TemporaryFolder folder;
  for (const char* name : {"train.txt", "train.bin", "val.bin", "val.txt"}) folder.write(name, "some text");
  const auto listed = [&](const char* train, const char* validation) {
    return list_run_files({.text = {folder / train}, .validation = {folder / validation}}).validation.size();
  };
  tests::expect_error([&] { (void)listed("train.txt", "val.bin"); }, ExitCode::data,
                      {"data.validation = ", "val.bin: a token file", "expected text files, or data.tokens"});
  EXPECT_EQ(listed("train.txt", "val.txt"), 1U);
  EXPECT_EQ(listed("train.bin", "val.bin"), 1U);
}

TEST(RunFiles, NamesSourcesByTheEndsOfTheirPaths) {
  const TemporaryFolder folder;
  for (const char* name : {"a/web/train.bin", "a/code/train.bin", "b/code/train.bin"}) folder.write(name, "xx");
  const auto names = [&](const Names& entries) {
    Names result;
    for (const auto& source : list_run_files({.tokens = entries, .weights = std::vector<double>(entries.size(), 1)}).sources)
      result.push_back(source.name);
    return result;
  };
  EXPECT_EQ(names({folder / "a/web/", folder / "a/code/train.bin"}), (Names{"web", "train"}));
  EXPECT_EQ(names({folder / "a/web/train.bin", folder / "a/code/train.bin"}), (Names{"web/train", "code/train"}));
  EXPECT_EQ(names({folder / "a/web", folder / "a/code", folder / "b/code"}), (Names{"a/web", "a/code", "b/code"}));
}

}  // namespace
}  // namespace millrace::runtime
