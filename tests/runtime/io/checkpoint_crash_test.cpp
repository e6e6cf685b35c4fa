#include <sys/wait.h>

#include <algorithm>

#include "tests/runtime/io/checkpoint_state.hpp"

namespace millrace::runtime {
namespace {

using testing::fault_at;
using testing::is_exact;
using testing::keep_two;
using testing::save;
using testing::Scratch;
using testing::State;

/// The step of the newest usable checkpoint after a restart, 0 if there is none; fails unless it is exactly the state of its
/// step.
std::uint64_t step_after_restart(const std::string& run) {
  CheckpointStore store(run, keep_two);
  const auto found = store.newest_usable();
  EXPECT_TRUE(found.warnings.empty()) << found.warnings.front();
  for (const auto& name : list_directory(store.folder())) EXPECT_FALSE(testing::contains(name, ".tmp")) << name;
  if (!found.checkpoint) return 0;
  EXPECT_TRUE(is_exact(*found.checkpoint));
  return found.checkpoint->step();
}

std::uint64_t calls_of_a_save(const std::string& run, std::uint64_t step) {
  set_file_hook([](const FileCall&) { return FileFault::none; });
  {
    CheckpointStore store(run, keep_two);
    save(store, State(step));
  }
  const auto calls = file_calls();
  set_file_hook({});
  return calls;
}

/// Starts, saves and retires old checkpoints, with the fault at call k; returns whether the save reported success.
bool save_with_fault(const std::string& run, std::uint64_t step, std::uint64_t k, FileFault fault) {
  set_file_hook(fault_at(k, fault));
  bool done = false;
  try {
    CheckpointStore store(run, keep_two);
    save(store, State(step));
    done = true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage) << error.what();
  }
  set_file_hook({});
  return done;
}

class EveryCall : public ::testing::TestWithParam<FileFault> {};

TEST_P(EveryCall, ThatFailsLeavesTheOldCheckpointOrTheNew) {
  const Scratch scratch;
  const auto calls = calls_of_a_save(scratch / "probe", 10);
  ASSERT_GT(calls, 40U);
  std::uint64_t newest = 0;
  int failures = 0;
  // All in one run: the first save, saves beside an old one, then saves that retire one. Each start reads a longer journal and
  // cleans up after the one before, so there are more calls than in a fresh run.
  for (std::uint64_t k = 1; k <= calls + 20; ++k) {
    const auto step = newest + 10;
    const bool done = save_with_fault(scratch / "run", step, k, GetParam());
    const auto now = step_after_restart(scratch / "run");
    EXPECT_TRUE(now == step || (now == newest && !done)) << "call " << k << " of step " << step << ": " << now;
    failures += done ? 0 : 1;
    newest = now;
  }
  EXPECT_EQ(failures > 20, GetParam() != FileFault::short_write);
}

TEST_P(EveryCall, ThatFailsInAFreshRunLeavesNothingOrTheFirstCheckpoint) {
  const Scratch scratch;
  const auto calls = calls_of_a_save(scratch / "probe", 10);
  for (std::uint64_t k = 1; k <= calls; ++k) {
    const auto run = scratch / ("run" + std::to_string(k));
    const bool done = save_with_fault(run, 10, k, GetParam());
    const auto now = step_after_restart(run);
    EXPECT_TRUE(now == 10 || (now == 0 && !done)) << "call " << k << ": " << now;
  }
}

std::string name_of_fault(const ::testing::TestParamInfo<FileFault>& fault) {
  return fault.param == FileFault::io_error ? "IoError" : fault.param == FileFault::no_space ? "NoSpace" : "ShortWrite";
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryCall, ::testing::Values(FileFault::io_error, FileFault::no_space, FileFault::short_write),
                         name_of_fault);

/// Runs a process that saves and dies at call k, or ends normally. Returns whether it died.
bool child_dies_at(const std::string& run, std::uint64_t step, std::uint64_t k) {
  const auto child = fork();
  if (child == 0) {
    set_file_hook(fault_at(k, FileFault::kill));
    int status = 1;
    try {
      CheckpointStore store(run, keep_two);
      if (store.newest_usable().checkpoint.has_value() == (step > 10)) {
        save(store, State(step));
        status = 0;
      }
    } catch (...) {
      status = 2;
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 137 || WEXITSTATUS(status) == 0)) << "call " << k << ": status " << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == 137;
}

TEST(CheckpointCrash, AKillAtAnyCallLeavesTheOldCheckpointOrTheNew) {
  const Scratch scratch;
  std::uint64_t newest = 0;
  std::uint64_t k = 1;
  for (bool died = true; died; ++k) {
    const auto step = newest + 10;
    died = child_dies_at(scratch / "run", step, k);
    const auto now = step_after_restart(scratch / "run");
    ASSERT_TRUE(now == step || (now == newest && died)) << "call " << k << " of step " << step << ": " << now;
    newest = now;
  }
  EXPECT_GT(k, 60U);
}

TEST(CheckpointCrash, AKillAtAnyCallOfAFreshRunNeverStopsTheNextStart) {
  const Scratch scratch;
  std::uint64_t k = 1;
  for (bool died = true; died; ++k) {
    const auto run = scratch / ("run" + std::to_string(k));
    died = child_dies_at(run, 10, k);
    const auto now = step_after_restart(run);
    ASSERT_TRUE(now == 10 || (now == 0 && died)) << "call " << k << ": " << now;
  }
  EXPECT_GT(k, 40U);
}

TEST(CheckpointCrash, AKillAtAnyCallOfARestartThatHasToCleanUpIsHarmless) {
  const Scratch scratch;
  const auto run = scratch / "run";
  {
    CheckpointStore store(run, keep_two);
    save(store, State(10));
  }
  std::uint64_t k = 1;
  for (bool died = true; died; ++k) {
    // A torn journal line, and an attempt that was about to be renamed.
    const auto child = fork();
    if (child == 0) {
      set_point_hook([](std::string_view name) {
        if (name == "checkpoint.after_commit_file") _exit(137);
      });
      CheckpointStore store(run, keep_two);
      save(store, State(20));
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(WEXITSTATUS(status), 137);
    testing::spill(journal_path(run), testing::slurp(journal_path(run)) + "{\"schema\":1,\"ev");
    const auto starter = fork();
    if (starter == 0) {
      set_file_hook(fault_at(k, FileFault::kill));
      CheckpointStore store(run, keep_two);
      _exit(0);
    }
    waitpid(starter, &status, 0);
    died = WEXITSTATUS(status) == 137;
    ASSERT_EQ(step_after_restart(run), 10U) << "call " << k;
  }
  EXPECT_GT(k, 8U);
}

TEST(CheckpointCrash, AKillJustAfterTheRenameStillCountsAsCommitted) {
  const Scratch scratch;
  const auto run = scratch / "run";
  const auto child = fork();
  if (child == 0) {
    set_faults("point=checkpoint.after_rename:kill", 0);
    CheckpointStore store(run, keep_two);
    save(store, State(10));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 137);
  std::filesystem::remove_all(run + "/checkpoints");  // somebody removed it: the run must not start again from its seed
  CheckpointStore store(run, keep_two);
  EXPECT_NE(testing::error_of(ExitCode::checkpoint, [&] { (void)store.newest_usable(); }), "");
}

TEST(CheckpointCrash, AKillJustAfterTheRenameLeavesTheNewCheckpoint) {
  const Scratch scratch;
  const auto run = scratch / "run";
  const auto child = fork();
  if (child == 0) {
    set_faults("point=checkpoint.after_rename:kill", 0);
    CheckpointStore store(run, keep_two);
    save(store, State(10));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 137);
  EXPECT_EQ(step_after_restart(run), 10U);
  const RunJournal journal(run);
  const auto& records = journal.records();
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const auto& record) { return record.step == 10; });
  ASSERT_NE(last, records.rend());
  EXPECT_EQ(to_string(last->event), "committed");
}

TEST(CheckpointCrash, AnAttemptThatIsGoneIsDiscardedAndTheOneBeforeIsUsed) {
  const Scratch scratch;
  const auto run = scratch / "run";
  {
    CheckpointStore store(run, keep_two);
    save(store, State(10));
  }
  {
    RunJournal journal(run);  // as a process leaves it that loses its power while it commits
    journal.append({JournalEvent::begin, 20, 2, ""});
    journal.append({JournalEvent::committing, 20, 2, ""});
  }
  EXPECT_EQ(step_after_restart(run), 10U);
  const RunJournal journal(run);
  const auto& records = journal.records();
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const auto& record) { return record.step == 20; });
  ASSERT_NE(last, records.rend());
  EXPECT_EQ(to_string(last->event), "discarded");
}

/// The order of the calls rules out any harmful reordering by the kernel: everything in the folder is synced before the rename,
/// and the rename before anything is removed.
TEST(CheckpointCrash, NothingIsRenamedBeforeItIsSyncedAndNothingGoesBeforeTheRenameIs) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run", keep_two);
  save(store, State(10));
  save(store, State(20));
  std::vector<std::pair<FileOperation, std::string>> calls;
  set_file_hook([&](const FileCall& call) {
    calls.emplace_back(call.operation, std::string(call.path));
    return FileFault::none;
  });
  const auto result = save(store, State(30));
  set_file_hook({});
  const auto place = [&](FileOperation operation, const std::string& part, bool last = false) {
    std::ptrdiff_t found = -1;
    for (std::size_t index = 0; index < calls.size(); ++index)
      if (calls[index].first == operation && testing::contains(calls[index].second, part) && (found < 0 || last))
        found = static_cast<std::ptrdiff_t>(index);
    EXPECT_GE(found, 0) << to_string(operation) << " " << part;
    return found;
  };
  const auto rename = place(FileOperation::rename, "step-00000030.tmp-");
  for (const char* file : {"shard-00000-of-00002", "shard-00001-of-00002", "manifest.json", "COMMIT"}) {
    const auto last_write = place(FileOperation::write, file, true);
    EXPECT_LT(last_write, place(FileOperation::sync, file)) << file;
    EXPECT_LT(place(FileOperation::sync, file), rename) << file;
  }
  EXPECT_LT(place(FileOperation::sync, "manifest.json"), place(FileOperation::create, "COMMIT"));
  EXPECT_LT(place(FileOperation::write, "COMMIT"), place(FileOperation::sync_directory, "step-00000030.tmp-", true));
  EXPECT_LT(place(FileOperation::sync_directory, "step-00000030.tmp-", true), rename);
  const auto durable =
      std::find_if(calls.begin() + rename, calls.end(),
                   [&](const auto& call) { return call.first == FileOperation::sync_directory && call.second == store.folder(); }) -
      calls.begin();
  EXPECT_LT(durable, place(FileOperation::rename, "step-00000010"));
  EXPECT_LT(durable, place(FileOperation::unlink, "step-00000010"));
  const auto retired =
      std::find_if(calls.begin() + place(FileOperation::rename, "step-00000010"), calls.end(),
                   [&](const auto& call) { return call.first == FileOperation::sync_directory && call.second == store.folder(); }) -
      calls.begin();
  EXPECT_LT(retired, place(FileOperation::unlink, "step-00000010")) << "half a checkpoint must not get its name back";
  EXPECT_EQ(result.folder, store.folder() + "/step-00000030");
}

TEST(CheckpointCrash, ReadErrorsStopTheStartAndPutNothingAside) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run", keep_two);
  save(store, State(10));
  set_file_hook([](const FileCall&) { return FileFault::none; });
  ASSERT_TRUE(store.newest_usable().checkpoint.has_value());
  const auto calls = file_calls();
  ASSERT_GT(calls, 8U);
  for (std::uint64_t k = 1; k <= calls; ++k) {
    set_file_hook(fault_at(k, FileFault::io_error));
    EXPECT_NE(testing::error_of(ExitCode::storage, [&] { (void)store.newest_usable(); }), "") << "call " << k;
    set_file_hook({});
    const auto found = store.newest_usable();
    ASSERT_TRUE(found.checkpoint && is_exact(*found.checkpoint)) << "call " << k;
  }
}

}  // namespace
}  // namespace millrace::runtime
