// Verifying a checkpoint must read the disk: the page cache may have an intact copy of a file that the disk has lost.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "runtime/checkpoint/found_checkpoint.hpp"
#include "tests/runtime/io/checkpoint_state.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using testing::save;
using testing::State;

/// The number of the file's pages in the page cache; -1 if the system does not report it.
std::int64_t resident_pages(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 || status.st_size == 0) return -1;
  const auto bytes = static_cast<std::size_t>(status.st_size), page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (mapped == MAP_FAILED) return -1;
  std::vector<unsigned char> held((bytes + page - 1) / page);
  const bool queried = mincore(mapped, bytes, held.data()) == 0;
  munmap(mapped, bytes);
  if (!queried) return -1;
  std::int64_t pages = 0;
  for (const auto one : held) pages += one & 1U;
  return pages;
}

/// Whether this file system can drop a file's pages from the cache; a file system in memory cannot.
bool lets_go(const std::string& path) {
  testing::spill(path, std::string(100'000, 'x'));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool asked = descriptor >= 0 && fsync(descriptor) == 0 && posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0;
  ::close(descriptor);
  return asked && resident_pages(path) == 0;
}

/// The smallest number of pages of each shard that were in the cache when a read of it was about to begin.
class Watch {
 public:
  Watch() {
    set_file_hook([this](const FileCall& call) {
      if (call.operation != FileOperation::read || !call.path.ends_with(".safetensors")) return FileFault::none;
      const std::string path(call.path);
      const auto pages = resident_pages(path);
      const auto [place, is_new] = fewest_.try_emplace(path, pages);
      place->second = std::min(place->second, pages);
      return FileFault::none;
    });
  }
  ~Watch() { set_file_hook({}); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  [[nodiscard]] const std::map<std::string, std::int64_t>& fewest() const { return fewest_; }

 private:
  std::map<std::string, std::int64_t> fewest_;
};

TEST(CheckpointCache, AShardIsReadBackFromTheDiskAndSoIsWhatIsVerified) {
  const tests::TemporaryFolder folder;
  if (!lets_go(folder / "probe"))
    GTEST_SKIP() << folder.path() << " is on a file system that lies in memory: nothing can be read from a disk";
  CheckpointStore store(folder / "run", {2, 0});
  const State state(1);
  {
    const Watch watch;
    save(store, state);
    EXPECT_EQ(watch.fewest().size(), 2U) << "both shards are read back";
    for (const auto& [path, pages] : watch.fewest()) EXPECT_EQ(pages, 0) << path;
  }
  const auto listed = list_checkpoints(folder / "run");
  ASSERT_EQ(listed.size(), 1U);
  (void)testing::is_exact(CheckpointReader(listed[0].folder));  // now everything is in the cache
  const Watch watch;
  EXPECT_TRUE(verify_checkpoint(listed[0].folder).empty());
  EXPECT_EQ(watch.fewest().size(), 2U);
  for (const auto& [path, pages] : watch.fewest()) EXPECT_EQ(pages, 0) << path;
}

}  // namespace
}  // namespace millrace::runtime
