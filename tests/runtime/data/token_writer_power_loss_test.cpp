#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/data/token_writer.hpp"
#include "tests/runtime/io/power_loss.hpp"
#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

namespace fs = std::filesystem;
using testing::PowerLossDisk;
using testing::Scratch;
using testing::slurp;
using Documents = std::vector<std::vector<std::int32_t>>;

// Both have the same numbers of tokens and documents, so that sizes cannot distinguish the index of one from the data of the
// other.
const Documents old_documents{{1, 2}, {3}}, new_documents{{4}, {5, 6}};

void write(const std::string& path, const Documents& documents) {
  TokenWriter writer(TokenTarget::megatron, path, 100);
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

TEST(TokenWriter, APowerLossNeverPairsOneFilesTokensWithAnothersDocuments) {
  const Scratch scratch;
  fs::create_directories(scratch / "old");
  fs::create_directories(scratch / "new");
  write(scratch / "old/m", old_documents);
  write(scratch / "new/m", new_documents);
  const auto pair_in = [&](const std::string& folder) {
    return std::pair(slurp(scratch / folder + "/m.bin"), slurp(scratch / folder + "/m.idx"));
  };
  const auto old_pair = pair_in("old"), new_pair = pair_in("new");
  bool lost = true;
  std::size_t states = 0;
  for (std::uint64_t k = 1; lost; ++k) {
    fs::remove_all(scratch / "disk");
    fs::copy(scratch / "old", scratch / "disk");
    PowerLossDisk disk(scratch / "disk");
    lost = disk.run_until(k, [&] { write(scratch / "disk/m", new_documents); });
    if (!disk.changed()) continue;
    states += disk.for_each_state(PowerLossDisk::States::all, scratch / "copy", [&](const std::string& what) {
      const auto now = pair_in("copy");
      EXPECT_TRUE(now == new_pair || (lost && (now == old_pair || !fs::exists(scratch / "copy/m.bin")))) << "call " << k << ", " << what;
    });
  }
  EXPECT_GT(states, 20U);
}

}  // namespace
}  // namespace millrace::runtime
