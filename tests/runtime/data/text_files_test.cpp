#include "runtime/data/text_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

std::vector<std::string> names(const std::vector<DataFile>& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(file.name);
  return result;
}

TEST(TextFiles, AreListedInByteOrderOfTheirPaths) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a/z", "a/B", "a.txt", "Z", "\xc3\xa4"}) folder.write(name, "x");
  // '.' sorts before '/', capital letters before lower case, and UTF-8 after both.
  EXPECT_EQ(names(list_data_files(std::vector{folder.path().string()})),
            (std::vector<std::string>{"Z", "a.txt", "a/B", "a/z", "b", "\xc3\xa4"}));
}

TEST(TextFiles, FollowLinksToFoldersThatAreNotReadAnyway) {
  const TemporaryFolder folder;
  folder.write("data/one", "1");
  folder.write("data/inner/two", "22");
  folder.write("disk/shards/three", "333");
  const auto link = [&](const std::string& to, const std::string& from) { ASSERT_EQ(::symlink(to.c_str(), (folder / from).c_str()), 0); };
  link(folder / "disk", "data/more");
  link(folder / "data/inner", "data/again");           // is read anyway
  link(folder / "data", "disk/back");                  // leads back to where the link stands
  link(folder.path().string(), "data/inner/upwards");  // contains all of it
  EXPECT_EQ(names(list_data_files(std::vector{folder / "data"})), (std::vector<std::string>{"inner/two", "more/shards/three", "one"}));
  link(folder / "disk/shards", "data/twice");
  expect_error([&] { (void)list_data_files(std::vector{folder / "data"}); }, ExitCode::data, {"/data/twice/three", "found twice"});
}

TEST(TextFiles, FollowLinksToFilesAndPassOverThoseToNothing) {
  const TemporaryFolder folder;
  folder.write("data/one", "1");
  folder.write("elsewhere/two", "22");
  ASSERT_EQ(::symlink((folder / "elsewhere/two").c_str(), (folder / "data/link").c_str()), 0);
  ASSERT_EQ(::symlink((folder / "data").c_str(), (folder / "data/cycle").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (folder / "data/dangling").c_str()), 0);
  EXPECT_EQ(names(list_data_files(std::vector{folder / "data"})), (std::vector<std::string>{"link", "one"}));
}

TEST(TextFiles, SuffixesChooseAmongTheFilesOfFolders) {
  const TemporaryFolder folder;
  folder.write("d/a.hpp", "x");
  folder.write("d/a.cpp", "x");
  folder.write("d/readme", "x");
  const std::string listed = folder.write("other.txt", "x");
  EXPECT_EQ(names(list_data_files(std::vector{folder / "d", listed}, std::vector<std::string>{".hpp", ".cpp"})),
            (std::vector<std::string>{"a.cpp", "a.hpp", "other.txt"}));
}

TEST(TextFiles, RefuseWhatIsNotThere) {
  const TemporaryFolder folder;
  expect_error([&] { (void)list_data_files(std::vector{folder / "nothing"}); }, ExitCode::data, {"nothing", "no such file or folder"});
  std::filesystem::create_directories(folder / "empty");
  expect_error([&] { (void)list_data_files(std::vector{folder / "empty"}); }, ExitCode::data, {"no files found", "empty"});
  const auto file = folder.write("f", "x");
  expect_error([&] { (void)list_data_files(std::vector{file, file}); }, ExitCode::data, {"found twice"});
  folder.write("d/a", "x");
  folder.write("d/b", "x");
  expect_error([&] { (void)list_data_files(std::vector{folder / "./d", folder / "d"}); }, ExitCode::data, {"/d/a", "found twice"});
  ASSERT_EQ(::symlink("d", (folder / "e").c_str()), 0);
  expect_error([&] { (void)list_data_files(std::vector{folder / "e", folder / "d"}); }, ExitCode::data, {"/e/a", "found twice"});
  expect_error([&] { (void)list_data_files(std::vector<std::string>{"/dev/null"}); }, ExitCode::data,
               {"/dev/null", "neither a regular file"});
}

TEST(TextFiles, EveryNthIsHeldOut) {
  std::vector<DataFile> files(25);
  for (std::size_t i = 0; i < files.size(); ++i) files[i].name = std::to_string(i);
  const auto split = split_held_out(files, 10);
  EXPECT_EQ(names(split.held_out), (std::vector<std::string>{"9", "19"}));
  EXPECT_EQ(split.train.size(), 23u);
  EXPECT_TRUE(split_held_out(files, 0).held_out.empty());
  EXPECT_EQ(split_held_out(files, 1).train.size(), 0u);
}

TEST(TextFiles, FingerprintNamesFilesNotPlaces) {
  const TemporaryFolder here, there;
  for (const TemporaryFolder* folder : {&here, &there}) {
    folder->write("a", "abc");
    folder->write("b/c", "de");
  }
  const auto fingerprint = [](const TemporaryFolder& folder) {
    return data_fingerprint(list_data_files(std::vector{folder.path().string()}));
  };
  const std::string first = fingerprint(here);
  EXPECT_EQ(first, fingerprint(there));
  there.write("a", "abcd");
  EXPECT_NE(first, fingerprint(there));
  there.write("a", "abc");
  there.write("d", "");
  EXPECT_NE(first, fingerprint(there));
}

}  // namespace
}  // namespace millrace::runtime
