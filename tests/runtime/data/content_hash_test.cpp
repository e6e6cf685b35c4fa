#include "runtime/data/content_hash.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::TemporaryFolder;

/// Bytes without a pattern.
std::string bytes_of(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, ' ');
  for (auto& byte : bytes) byte = static_cast<char>((seed = seed * 6364136223846793005ULL + 1442695040888963407ULL) >> 56);
  return bytes;
}

struct Hashed {
  std::vector<FileContent> contents;
  std::uint64_t done = 0;
};

Hashed hash(const std::vector<DataFile>& files, const std::vector<FileContent>& known = {}, int threads = 2) {
  kernels::ThreadTeam team(threads);
  std::atomic<std::uint64_t> done{0};
  Hashed hashed{hash_files(files, known, team, done), 0};
  hashed.done = done;
  return hashed;
}

DataFile file_of(const std::string& path) {
  return {path, std::filesystem::path(path).filename().string(), std::filesystem::file_size(path)};
}

TEST(ContentHash, IsThatOfTheBytesForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const std::vector<std::size_t> sizes{0, 1, hash_chunk_bytes - 1, hash_chunk_bytes, 2 * hash_chunk_bytes + 17};
  std::vector<DataFile> files;
  std::vector<Hash128> wanted;
  std::uint64_t bytes = 0;
  for (const auto size : sizes) {
    const auto text = bytes_of(size, size);
    files.push_back(file_of(folder.write(std::to_string(size), text)));
    wanted.push_back(hash_of_chunks(chunk_hashes(std::as_bytes(std::span(text.data(), text.size())))));
    bytes += size;
  }
  for (const int threads : {1, 3}) {
    const auto hashed = hash(files, {}, threads);
    ASSERT_EQ(hashed.contents.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(hashed.contents[i].hash, wanted[i]) << sizes[i];
    EXPECT_EQ(hashed.done, bytes);
  }
}

TEST(ContentHash, SeesOneBitAndTheOrder) {
  const TemporaryFolder folder;
  auto text = bytes_of(hash_chunk_bytes + 5, 1);
  const std::vector<DataFile> files{file_of(folder.write("a", text)), file_of(folder.write("b", "b"))};
  const auto before = hash(files);
  text[hash_chunk_bytes + 2] ^= 1;
  folder.write("a", text);
  const auto after = hash(files, before.contents);
  EXPECT_NE(after.contents[0].hash, before.contents[0].hash);
  EXPECT_EQ(after.contents[1].hash, before.contents[1].hash);
  EXPECT_NE(hash_of_contents(after.contents), hash_of_contents(before.contents));
  EXPECT_NE(hash_of_contents(hash({files[1], files[0]}).contents), hash_of_contents(after.contents));
}

TEST(ContentHash, ReadsNoFileWhoseStampIsKnown) {
  const TemporaryFolder folder;
  const auto path = folder.write("a", "what is there");
  // Shows what a stamp proves: the recorded hash is not that of the bytes, so it reveals whether it was reused.
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const auto nanoseconds = [](const timespec& time) { return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec; };
  const FileContent known{
      "a", {static_cast<std::uint64_t>(status.st_size), status.st_ino, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)}, {7, 8}};
  const std::vector<DataFile> files{file_of(path)};
  EXPECT_EQ(hash(files, {known}).contents[0].hash, known.hash);
  const auto differs = [&](auto change) {
    auto other = known;
    change(other);
    return hash(files, {other}).contents[0].hash != known.hash;
  };
  EXPECT_TRUE(differs([](FileContent& other) { other.name = "b"; }));
  EXPECT_TRUE(differs([](FileContent& other) { ++other.stamp.size; }));
  EXPECT_TRUE(differs([](FileContent& other) { ++other.stamp.inode; }));
  EXPECT_TRUE(differs([](FileContent& other) { ++other.stamp.modified; }));
  EXPECT_TRUE(differs([](FileContent& other) { ++other.stamp.changed; }));
  // A write that keeps the size and sets the modification time back is detected by the change time, which cannot be set.
  folder.write("a", "what is HERE!");
  const timespec times[] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_NE(hash(files, {known}).contents[0].hash, known.hash);
}

TEST(ContentHash, AFileThatWasJustWrittenIsReadAgain) {
  const TemporaryFolder folder;
  const std::vector<DataFile> files{file_of(folder.write("a", "just now"))};
  EXPECT_EQ(hash(files).contents[0].stamp.changed, 0) << "the next write may leave the same times";
}

TEST(ContentHash, IsKeptAsText) {
  const std::vector<FileContent> contents{{"a b\tc", {1, 2, -3, 4}, {5, 6}}, {"\xff/ü", {~0ULL, 0, 0, 0}, {0, ~0ULL}}};
  const auto text = to_text(contents);
  const auto again = contents_from_text(text);
  ASSERT_EQ(again.size(), 2U);
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].name, contents[i].name);
    EXPECT_EQ(again[i].stamp, contents[i].stamp);
    EXPECT_EQ(again[i].hash, contents[i].hash);
  }
  const auto line = text.substr(0, text.find('\n') + 1);
  for (std::size_t length = 0; length < line.size(); ++length)  // cut off at any length
    EXPECT_TRUE(contents_from_text(line.substr(0, length)).empty()) << length;
  EXPECT_EQ(contents_from_text("nonsense\n" + line + "x 1 2 3 4 a\n").size(), 1U);
  EXPECT_TRUE(to_text(std::vector<FileContent>{{"two\nlines", {}, {}}}).empty());
}

TEST(ContentHash, NamesAFileThatCannotBeRead) {
  const TemporaryFolder folder;
  const auto path = folder.write("a", "a");
  const auto files = std::vector{file_of(path)};
  std::filesystem::remove(path);
  tests::expect_error([&] { (void)hash(files); }, ExitCode::data, {path, "cannot be read"});
}

}  // namespace
}  // namespace millrace::runtime
