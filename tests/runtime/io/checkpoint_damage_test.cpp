#include <random>

#include "runtime/checkpoint/found_checkpoint.hpp"
#include "tests/runtime/io/checkpoint_state.hpp"

namespace millrace::runtime {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::error_of;
using testing::is_exact;
using testing::save;
using testing::Scratch;
using testing::slurp;
using testing::spill;
using testing::State;

const std::vector<std::string> files = {"COMMIT", "manifest.json", "shard-00000-of-00002.safetensors", "shard-00001-of-00002.safetensors"};

std::string saved_folder(const Scratch& scratch, std::uint64_t step = 20) {
  CheckpointStore store(scratch / "run");
  if (step == 20) save(store, State(10));
  return save(store, State(step)).folder;
}

TEST(CheckpointDamage, EveryPrefixOfEveryFileIsNoticed) {
  const Scratch scratch;
  const auto folder = saved_folder(scratch);
  ASSERT_TRUE(verify_checkpoint(folder).empty());
  for (const auto& file : files) {
    const auto whole = slurp(folder + "/" + file);
    const std::size_t stride = file == "manifest.json" ? 7 : 1;
    for (std::size_t length = 0; length < whole.size(); length += stride) {
      spill(folder + "/" + file, whole.substr(0, length));
      ASSERT_FALSE(verify_checkpoint(folder).empty()) << file << " cut to " << length;
    }
    spill(folder + "/" + file, whole);
  }
  EXPECT_TRUE(verify_checkpoint(folder).empty());
}

TEST(CheckpointDamage, TwoThousandFlippedBitsAreNoticedAndNamed) {
  const Scratch scratch;
  const auto folder = saved_folder(scratch);
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto& file = files[random() % files.size()];
    const auto whole = slurp(folder + "/" + file);
    auto damaged = whole;
    const auto bit = random() % (whole.size() * 8);
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    spill(folder + "/" + file, damaged);
    const auto problems = verify_checkpoint(folder);
    ASSERT_FALSE(problems.empty()) << file << " bit " << bit;
    EXPECT_TRUE(contains(to_string(problems.front()), file)) << to_string(problems.front());
    spill(folder + "/" + file, whole);
  }
  EXPECT_TRUE(verify_checkpoint(folder).empty());
}

TEST(CheckpointDamage, TheMessageNamesFileTensorAndOffset) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  std::vector<float> values(hash_chunk_bytes / 4 * 2 + 100, 0.5F);
  const std::vector<CheckpointTensor> tensors = {
      {"weight", FileDType::f32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values)), {}}};
  const auto temporary = store.begin(10, values.size() * 4);
  const std::vector<ShardReport> reports = {write_shard(temporary, 0, 1, tensors)};
  ASSERT_EQ(reports[0].tensors[0].chunks.size(), 3U);
  const auto folder = store.commit(temporary, reports, State(10).meta()).folder;
  const auto path = folder + "/shard-00000-of-00001.safetensors";
  auto bytes = slurp(path);
  bytes[bytes.size() - 100 * 4 - 5] ^= 1;  // in the second of three chunks
  spill(path, bytes);
  const auto problems = verify_checkpoint(folder);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].file, "shard-00000-of-00001.safetensors");
  EXPECT_EQ(problems[0].tensor, "weight");
  EXPECT_EQ(problems[0].offset, hash_chunk_bytes);
  std::vector<float> read(values.size());
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { CheckpointReader(folder).read("weight", read); }), "'weight' at byte 4194304"));
}

struct Damage {
  const char* name;
  void (*apply)(const std::string& folder);
};

class Damaged : public ::testing::TestWithParam<Damage> {};

TEST_P(Damaged, IsPutAsideAndTheOneBeforeIsUsed) {
  const Scratch scratch;
  const auto folder = saved_folder(scratch);
  GetParam().apply(folder);
  CheckpointStore store(scratch / "run");
  const auto found = store.newest_usable();
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_EQ(found.checkpoint->step(), 10U);
  EXPECT_TRUE(is_exact(*found.checkpoint));
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_EQ(store.journal().records().back().event, JournalEvent::quarantined);
  EXPECT_TRUE(contains(found.warnings[0], store.journal().records().back().note));
  // The name is free again for a run that reaches this step.
  save(store, State(fs::exists(store.folder() + "/step-00000099.bad") ? 99 : 20));
  EXPECT_EQ(store.newest_usable().warnings.size(), 0U);
}

TEST(CheckpointDamage, TheWarningNamesTheFirstProblemAndCountsTheOthers) {
  for (const int damaged : {1, 2}) {
    const Scratch scratch;
    const auto folder = saved_folder(scratch);
    for (int shard = 0; shard < damaged; ++shard) {
      const auto path = fmt::format("{}/shard-{:05}-of-00002.safetensors", folder, shard);
      auto bytes = slurp(path);
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      spill(path, bytes);
    }
    const auto problems = verify_checkpoint(folder);
    ASSERT_GE(problems.size(), static_cast<std::size_t>(damaged));
    const auto found = CheckpointStore(scratch / "run").newest_usable();
    ASSERT_EQ(found.warnings.size(), 1U);
    EXPECT_TRUE(contains(found.warnings[0], to_string(problems.front()))) << found.warnings[0];
    const auto others = fmt::format(" and {} more", problems.size() - 1);
    EXPECT_EQ(contains(found.warnings[0], others), problems.size() > 1) << found.warnings[0];
    EXPECT_EQ(contains(found.warnings[0], " more"), problems.size() > 1) << found.warnings[0];
  }
}

const std::string shard0 = "/shard-00000-of-00002.safetensors";
const std::string shard1 = "/shard-00001-of-00002.safetensors";

void swap_shards(const std::string& folder) {
  fs::rename(folder + shard0, folder + "/x");
  fs::rename(folder + shard1, folder + shard0);
  fs::rename(folder + "/x", folder + shard1);
}
void stale_shard(const std::string& folder) {
  fs::copy_file(fs::path(folder).parent_path().string() + "/step-00000010" + shard0, folder + shard0, fs::copy_options::overwrite_existing);
}
void zero_block(const std::string& folder) {
  auto bytes = slurp(folder + shard0);
  std::fill(bytes.end() - 16, bytes.end(), '\0');
  spill(folder + shard0, bytes);
}
/// Writes a commit of the same manifest that claims to be of another attempt.
void commit_of_another_attempt(const std::string& folder) {
  auto commit = Commit::from_text(slurp(folder + "/COMMIT"), "COMMIT");
  ++commit.epoch;
  spill(folder + "/COMMIT", commit.text());
}
void link_shard(const std::string& folder) {
  fs::rename(folder + shard0, folder + "/elsewhere");
  fs::create_symlink("elsewhere", folder + shard0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Damaged,
    ::testing::Values(Damage{"MissingShard", [](const std::string& f) { fs::remove(f + shard1); }},
                      Damage{"MissingManifest", [](const std::string& f) { fs::remove(f + "/manifest.json"); }},
                      Damage{"MissingCommit", [](const std::string& f) { fs::remove(f + "/COMMIT"); }},
                      Damage{"RenamedShard", [](const std::string& f) { fs::rename(f + shard1, f + "/shard-00002-of-00002.safetensors"); }},
                      Damage{"TornShard", [](const std::string& f) { fs::resize_file(f + shard1, fs::file_size(f + shard1) / 2); }},
                      Damage{"GrownShard", [](const std::string& f) { fs::resize_file(f + shard1, fs::file_size(f + shard1) + 8); }},
                      Damage{"SwappedShards", swap_shards}, Damage{"StaleShard", stale_shard}, Damage{"ZeroedBlock", zero_block},
                      Damage{"SymbolicLink", link_shard}, Damage{"CommitOfAnotherAttempt", commit_of_another_attempt},
                      Damage{"OtherManifest",
                             [](const std::string& f) {
                               fs::copy_file(fs::path(f).parent_path().string() + "/step-00000010/manifest.json", f + "/manifest.json",
                                             fs::copy_options::overwrite_existing);
                             }},
                      Damage{"FolderOfAnotherName",
                             [](const std::string& f) { fs::rename(f, fs::path(f).parent_path().string() + "/step-00000099"); }}),
    [](const auto& damage) { return std::string(damage.param.name); });

TEST(CheckpointDamage, WhenAllAreDamagedTheRunStops) {
  const Scratch scratch;
  const auto folder = saved_folder(scratch, 10);
  testing::spill(folder + "/COMMIT", "");
  for (int start = 0; start < 3; ++start) {
    CheckpointStore store(scratch / "run");
    const auto error = error_of(ExitCode::checkpoint, [&] { (void)store.newest_usable(); });
    EXPECT_TRUE(contains(error, "none is usable. These were damaged and put aside:\n  step-00000010.bad: ")) << error;
    EXPECT_EQ(error.find(scratch / "run/checkpoints"), error.rfind(scratch / "run/checkpoints")) << "the folder is named once: " << error;
    EXPECT_TRUE(contains(error, "COMMIT") && contains(error, restore_advice)) << "why, at every start: " << error;
  }
  fs::remove_all(scratch / "run/checkpoints");
  CheckpointStore store(scratch / "run");
  const auto error = error_of(ExitCode::checkpoint, [&] { (void)store.newest_usable(); });
  EXPECT_TRUE(contains(error, "none is usable. The folder has none: somebody moved or deleted them")) << error;
}

TEST(CheckpointDamage, WhatWasPutAsideIsListedWithItsReason) {
  const Scratch scratch;
  EXPECT_TRUE(put_aside(scratch / "run").empty());
  for (int time = 0; time < 3; ++time) {
    const auto folder = saved_folder(scratch, 10);
    EXPECT_TRUE(time > 0 || put_aside(scratch / "run").empty());
    if (time == 2) fs::remove_all(folder + ".bad");
    testing::spill(folder + (time == 1 ? "/manifest.json" : "/COMMIT"), "");
    CheckpointStore store(scratch / "run");
    EXPECT_THROW((void)store.newest_usable(), Error);
  }
  save(*std::make_unique<CheckpointStore>(scratch / "run"), State(20));
  fs::rename(scratch / "run/checkpoints/step-00000020", scratch / "run/checkpoints/step-00000020.bad");
  // The first of step 10 was deleted, and its name used again.
  const auto listed = put_aside(scratch / "run");
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_EQ(listed[0].folder, scratch / "run/checkpoints/step-00000010.bad");
  EXPECT_EQ(listed[1].folder, scratch / "run/checkpoints/step-00000010.bad-2");
  EXPECT_EQ(listed[0].step, 10U);
  EXPECT_FALSE(listed[0].reason.empty());
  EXPECT_TRUE(contains(listed[1].reason, "COMMIT")) << listed[1].reason;
  EXPECT_EQ(listed[2].step, 20U);
  EXPECT_TRUE(listed[2].reason.empty()) << "nobody journaled it";
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { (void)open_checkpoint(scratch / "run", "test"); }),
                       "no checkpoint is usable. These were damaged and put aside:\n  step-00000010.bad: "));
}

TEST(CheckpointDamage, WithoutItsJournalAPutAsideCheckpointStillStopsTheRun) {
  const Scratch scratch;
  const auto folder = saved_folder(scratch, 10);
  testing::spill(folder + "/COMMIT", "");
  fs::remove(scratch / "run/journal.jsonl");
  CheckpointStore store(scratch / "run");
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { (void)store.newest_usable(); }), "COMMIT"));
}

}  // namespace
}  // namespace millrace::runtime
