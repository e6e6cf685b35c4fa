#include "kernels/cuda/gemm_autotune_cache.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::kernels::cuda {
namespace {

class ProductChoicesInAFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  tests::TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "choices").string();
};

TEST_F(ProductChoicesInAFile, FindsWhatWasKeptOnceMore) {
  {
    GemmAutotuneCache choices(path_);
    EXPECT_EQ(choices.find("a b"), std::nullopt);
    EXPECT_EQ(choices.keep("a b", "first 1.5"), "first 1.5");
    EXPECT_EQ(choices.keep("c", "second"), "second");
    EXPECT_EQ(choices.find("a b"), "first 1.5");
  }
  const GemmAutotuneCache again(path_);
  EXPECT_EQ(again.find("a b"), "first 1.5");
  EXPECT_EQ(again.find("c"), "second");
  EXPECT_EQ(again.find("a"), std::nullopt);
}

TEST_F(ProductChoicesInAFile, TheFirstChoiceHoldsForAll) {
  GemmAutotuneCache one(path_), other(path_);
  EXPECT_EQ(one.keep("key", "one"), "one");
  EXPECT_EQ(other.find("key"), std::nullopt);
  EXPECT_EQ(other.keep("key", "other"), "one");
  EXPECT_EQ(other.find("key"), "one");
  EXPECT_EQ(other.keep("more", "other"), "other");
  EXPECT_EQ(one.keep("more", "one"), "other");
  EXPECT_EQ(GemmAutotuneCache(path_).find("key"), "one");
}

TEST_F(ProductChoicesInAFile, PassesOverADamagedLine) {
  {
    GemmAutotuneCache choices(path_);
    choices.keep("a", "first");
    choices.keep("b", "second");
  }
  std::string damaged = text();
  damaged[damaged.find("first")] = 'F';
  write("\n\t\nno tab\nkey\tvalue\n" + damaged);
  GemmAutotuneCache choices(path_);
  EXPECT_EQ(choices.find("a"), std::nullopt);
  EXPECT_EQ(choices.find("b"), "second");
  EXPECT_EQ(choices.find("key"), std::nullopt);
  EXPECT_EQ(choices.keep("a", "third"), "third");
  EXPECT_EQ(GemmAutotuneCache(path_).find("a"), "third");
}

TEST_F(ProductChoicesInAFile, WritesBehindALineThatWasCutOff) {
  {
    GemmAutotuneCache choices(path_);
    choices.keep("a", "first");
  }
  const std::string whole = text();
  write(whole + whole.substr(0, whole.size() / 2));
  {
    GemmAutotuneCache choices(path_);
    EXPECT_EQ(choices.find("a"), "first");
    EXPECT_EQ(choices.keep("b", "second"), "second");
  }
  const GemmAutotuneCache again(path_);
  EXPECT_EQ(again.find("a"), "first");
  EXPECT_EQ(again.find("b"), "second");
}

TEST_F(ProductChoicesInAFile, NamesAFileThatCannotBe) {
  const std::string path = (folder_.path() / "nowhere" / "choices").string();
  tests::expect_error([&] { GemmAutotuneCache{path}; }, ExitCode::storage, {path, "cannot be opened"});
  GemmAutotuneCache choices(path_);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  tests::expect_error([&] { choices.keep("a", "first"); }, ExitCode::storage, {path_});
}

}  // namespace
}  // namespace millrace::kernels::cuda
