#include <algorithm>

#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/io/metrics_file.hpp"
#include "tests/runtime/io/checkpoint_state.hpp"
#include "tests/runtime/io/power_loss.hpp"

namespace millrace::runtime {
namespace {

namespace fs = std::filesystem;
using testing::is_exact;
using testing::keep_two;
using testing::PowerLossDisk;
using testing::save;
using testing::Scratch;
using testing::State;
using States = testing::PowerLossDisk::States;

/// The step of the newest checkpoint that a start finds, 0 if there is none. Neither it nor an earlier one may be damaged.
std::uint64_t step_after_power_loss(const std::string& run) {
  CheckpointStore store(run, keep_two);
  const auto found = store.newest_usable();
  EXPECT_TRUE(found.warnings.empty()) << found.warnings.front();
  for (const auto& listed : list_checkpoints(run)) {
    EXPECT_EQ(listed.problem, "");
    EXPECT_TRUE(verify_checkpoint(listed.folder).empty()) << listed.folder;
  }
  if (!found.checkpoint) return 0;
  EXPECT_TRUE(is_exact(*found.checkpoint));
  return found.checkpoint->step();
}

void start_and_save(const std::string& run, std::uint64_t step) {
  CheckpointStore store(run, keep_two);
  save(store, State(step));
}

/// A run with this number of checkpoints, at the steps 10, 20, …
void prepare(const std::string& run, std::uint64_t checkpoints) {
  fs::create_directories(fs::path(run).parent_path());
  for (std::uint64_t step = 10; step <= 10 * checkpoints; step += 10) start_and_save(run, step);
}

void remove_temporary_folders(const std::string& run) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", none))
    if (entry.path().string().find(".tmp-") != std::string::npos) fs::remove_all(entry.path());
}

/// Restores `disk` to the state that was prepared in `start`.
void begin_again(const std::string& start, const std::string& disk) {
  fs::remove_all(disk);
  fs::copy(start, disk, fs::copy_options::recursive);
}

class PowerLossAtEveryCall : public ::testing::TestWithParam<std::uint64_t> {};

// The parameter is the number of earlier checkpoints: with none, not even the run's folder exists; with two, the oldest is
// deleted at the end.
TEST_P(PowerLossAtEveryCall, LeavesTheOldCheckpointOrTheNew) {
  const Scratch scratch;
  const auto old = 10 * GetParam();
  prepare(scratch / "start/deep/run", GetParam());
  bool lost = true;
  std::size_t states = 0, most_pending = 0;
  for (std::uint64_t k = 1; lost; ++k) {
    begin_again(scratch / "start", scratch / "disk");
    PowerLossDisk disk(scratch / "disk");
    lost = disk.run_until(k, [&] { start_and_save(scratch / "disk/deep/run", old + 10); });
    if (!disk.changed()) continue;
    most_pending = std::max(most_pending, disk.pending());
    states += disk.for_each_state(States::all, scratch / "copy", [&](const std::string& what) {
      const ::testing::ScopedTrace trace(__FILE__, __LINE__, "call " + std::to_string(k) + ", " + what);
      const auto now = step_after_power_loss(scratch / "copy/deep/run");
      EXPECT_TRUE(now == old + 10 || (lost && now == old)) << "step " << now;
    });
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(states, 80U);
  EXPECT_GT(most_pending, 1U);
}

TEST_P(PowerLossAtEveryCall, AndRemovedTemporaryFoldersLeaveTheOldCheckpointOrTheNew) {
  const Scratch scratch;
  const auto old = 10 * GetParam();
  prepare(scratch / "start/deep/run", GetParam());
  bool lost = true;
  for (std::uint64_t k = 1; lost; ++k) {
    begin_again(scratch / "start", scratch / "disk");
    PowerLossDisk disk(scratch / "disk");
    lost = disk.run_until(k, [&] { start_and_save(scratch / "disk/deep/run", old + 10); });
    if (!disk.changed()) continue;
    disk.for_each_state(States::extremes, scratch / "copy", [&](const std::string& what) {
      const ::testing::ScopedTrace trace(__FILE__, __LINE__, "call " + std::to_string(k) + ", " + what);
      remove_temporary_folders(scratch / "copy/deep/run");
      const auto now = step_after_power_loss(scratch / "copy/deep/run");
      EXPECT_TRUE(now == old + 10 || (lost && now == old)) << "step " << now;
    });
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Before, PowerLossAtEveryCall, ::testing::Values(0, 1, 2));

/// A process is killed at a call, the next one starts, and then the power fails: what the first process left in the page cache is
/// visible to the second, though it is not on the disk.
TEST(PowerLoss, OfTheStartThatFollowsAKillLeavesTheOldCheckpointOrTheNew) {
  for (const std::uint64_t old : {0, 10}) {
    const Scratch scratch;
    prepare(scratch / "start/deep/run", old / 10);
    const auto run = scratch / "disk/deep/run";
    bool killed = true;
    for (std::uint64_t k = 1; killed; ++k) {
      bool lost = true;
      for (std::uint64_t m = 1; lost; ++m) {
        begin_again(scratch / "start", scratch / "disk");
        PowerLossDisk disk(scratch / "disk");
        killed = disk.run_until(k, [&] { start_and_save(run, old + 10); });
        if (!disk.changed()) break;
        lost = disk.run_until(m, [&] { const CheckpointStore store(run, keep_two); });
        if (!disk.changed()) continue;
        disk.for_each_state(States::extremes, scratch / "copy", [&](const std::string& what) {
          const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                             "killed at call " + std::to_string(k) + ", off at call " + std::to_string(m) + ", " + what);
          const auto now = step_after_power_loss(scratch / "copy/deep/run");
          EXPECT_TRUE(now == old + 10 || (killed && now == old)) << "step " << now;
        });
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

/// Other functions that claim durability when they return. At every call before that, the disk has either the old bytes or the
/// new.
struct DurableWrite {
  const char* name;
  const char* path;  // relative to the disk's folder
  void (*write)(const std::string& disk, const std::string& text);
};

class PowerLossInAWrite : public ::testing::TestWithParam<DurableWrite> {};

TEST_P(PowerLossInAWrite, LeavesTheOldBytesOrTheNew) {
  const auto& [name, path, write] = GetParam();
  for (const bool there : {false, true}) {
    const Scratch scratch;
    fs::create_directories(scratch / "start");
    std::string old;
    if (there) {
      write(scratch / "start", "the old bytes");
      old = testing::slurp(scratch / "start" + path);
    }
    write(scratch / "other", "the new");
    const auto fresh = testing::slurp(scratch / "other" + path);
    ASSERT_NE(fresh, old);
    bool lost = true;
    for (std::uint64_t k = 1; lost; ++k) {
      begin_again(scratch / "start", scratch / "disk");
      PowerLossDisk disk(scratch / "disk");
      lost = disk.run_until(k, [&, to = write] { to(scratch / "disk", "the new"); });
      disk.for_each_state(States::all, scratch / "copy", [&](const std::string& what) {
        const bool exists = fs::exists(scratch / "copy" + path);
        const auto now = exists ? testing::slurp(scratch / "copy" + path) : "";
        EXPECT_TRUE((exists && now == fresh) || (lost && exists == there && now == old))
            << "call " << k << ", " << what << ", there before: " << there << ": " << now;
      });
    }
  }
}

void write_tensor(const std::string& disk, const std::string& text) {
  make_directories(disk + "/new/folder");
  const std::vector<TensorToWrite> tensors{
      {"text", FileDType::u8, {static_cast<std::int64_t>(text.size())}, std::as_bytes(std::span(text))}};
  write_safetensors(disk + "/new/folder/file", tensors, {});
}

INSTANTIATE_TEST_SUITE_P(Kinds, PowerLossInAWrite,
                         ::testing::Values(DurableWrite{"Text", "/new/folder/file",
                                                        [](const std::string& disk, const std::string& text) {
                                                          make_directories(disk + "/new/folder");
                                                          write_text_file(disk + "/new/folder/file", text);
                                                        }},
                                           DurableWrite{"Safetensors", "/new/folder/file", write_tensor}),
                         [](const auto& write) { return std::string(write.param.name); });

/// A synced line is kept, whichever start of the run wrote it.
TEST(PowerLoss, KeepsTheSyncedLinesOfMetricsAndJournal) {
  const Scratch scratch;
  const auto run = scratch / "disk/run";
  const auto session = [&](std::uint64_t step) {
    RunJournal journal(run);
    MetricsFile metrics(run + "/metrics.jsonl");
    journal.append({JournalEvent::begin, step, step, "a note"});
    metrics.append({step, {}});
    metrics.sync();
  };
  bool killed = true;
  for (std::uint64_t k = 1; killed; ++k) {
    fs::remove_all(scratch / "disk");
    fs::create_directories(scratch / "disk");
    PowerLossDisk disk(scratch / "disk");
    killed = disk.run_until(k, [&] { session(1); });
    ASSERT_FALSE(disk.run_until(1'000'000, [&] { session(2); }));
    disk.for_each_state(States::all, scratch / "copy", [&](const std::string& what) {
      EXPECT_EQ(RunJournal(scratch / "copy/run").next_epoch(), 3U) << "killed at call " << k << ", " << what;
      EXPECT_TRUE(testing::contains(testing::slurp(scratch / "copy/run/metrics.jsonl"), "{\"step\":2}"))
          << "killed at call " << k << ", " << what;
    });
  }
}

}  // namespace
}  // namespace millrace::runtime
