#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"

#include <algorithm>

#include "tests/runtime/io/checkpoint_state.hpp"

namespace millrace::runtime {
namespace {

using testing::contains;
using testing::error_of;
using testing::is_exact;
using testing::save;
using testing::Scratch;
using testing::State;

std::vector<std::string> names_in(const CheckpointStore& store) { return list_directory(store.folder()); }

TEST(CheckpointFile, AFreshRunHasNothing) {
  const Scratch scratch;
  CheckpointStore store(scratch / "deep/run");
  EXPECT_FALSE(store.newest_usable().checkpoint.has_value());
  EXPECT_TRUE(list_checkpoints(scratch / "deep/run").empty());
  EXPECT_TRUE(list_checkpoints(scratch / "nothing").empty());
}

TEST(CheckpointFile, ReturnsWhatWasSavedWithItsMeta) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto result = save(store, State(40), 3);
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_TRUE(result.folder.ends_with("/checkpoints/step-00000040"));
  const auto found = store.newest_usable();
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_TRUE(is_exact(*found.checkpoint));
  EXPECT_EQ(found.checkpoint->meta().identity.at("train.seed"), "1");
  EXPECT_EQ(found.checkpoint->meta().notes.at("build"), "test");
  EXPECT_EQ(found.checkpoint->manifest().run, store.journal().run_id());
  EXPECT_EQ(found.checkpoint->find("adamw.m/model"), nullptr);
  std::vector<float> wrong(2);
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { found.checkpoint->read("model.norm.weight", wrong); }), "model.norm.weight"));
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { found.checkpoint->read("nobody", wrong); }), "no tensor 'nobody'"));
}

TEST(CheckpointFile, OneThatIsDeletedWhileItIsListedIsNotListed) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  for (const std::uint64_t step : {10, 20}) save(store, State(step));
  set_file_hook([&](const FileCall& call) {
    if (call.path.find("step-00000010") != std::string_view::npos) std::filesystem::remove_all(scratch / "run/checkpoints/step-00000010");
    return FileFault::none;
  });
  const auto listed = list_checkpoints(scratch / "run");
  set_file_hook({});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed.front().step, 20U);
}

TEST(CheckpointFile, AreFoundBehindLinks) {
  const Scratch scratch;
  make_directories(scratch / "run");
  make_directories(scratch / "elsewhere");
  std::filesystem::create_symlink("../elsewhere", scratch / "run/checkpoints");
  CheckpointStore store(scratch / "run");
  for (const std::uint64_t step : {10, 20}) save(store, State(step));
  EXPECT_EQ(list_checkpoints(scratch / "run").size(), 2U);
  std::filesystem::rename(scratch / "elsewhere/step-00000020", scratch / "moved");
  std::filesystem::create_symlink(scratch / "moved", scratch / "elsewhere/step-00000020");
  const auto found = store.newest_usable();
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_EQ(found.checkpoint->step(), 20U);
  EXPECT_TRUE(found.warnings.empty());
}

TEST(CheckpointFile, TheStateHashDoesNotDependOnTheWriters) {
  const Scratch scratch;
  std::vector<Hash128> hashes;
  for (const int writers : {1, 2, 4, 7}) {  // with seven writers, three have nothing to write
    CheckpointStore store(scratch / std::to_string(writers));
    save(store, State(10), writers);
    hashes.push_back(store.newest_usable().checkpoint->state_hash());
  }
  for (const auto& hash : hashes) EXPECT_EQ(hash, hashes[0]);
  CheckpointStore store(scratch / "other");
  save(store, State(11));
  EXPECT_NE(store.newest_usable().checkpoint->state_hash(), hashes[0]);
}

TEST(CheckpointFile, EqualStatesGiveEqualShardBytes) {
  const Scratch scratch;
  for (const char* run : {"a", "b"}) {
    CheckpointStore store(scratch / run);
    save(store, State(10));
  }
  for (const char* shard : {"shard-00000-of-00002.safetensors", "shard-00001-of-00002.safetensors"})
    EXPECT_EQ(testing::slurp(scratch / "a/checkpoints/step-00000010/" + shard),
              testing::slurp(scratch / "b/checkpoints/step-00000010/" + shard));
}

TEST(CheckpointFile, KeepsTheLastKAndNeverFewerThanTwo) {
  const Scratch scratch;
  const auto steps_kept = [&](const std::string& run, Retention retention) {
    CheckpointStore store(scratch / run, retention);
    for (std::uint64_t step = 10; step <= 60; step += 10) EXPECT_TRUE(save(store, State(step)).warnings.empty());
    std::vector<std::uint64_t> steps;
    for (const auto& listed : list_checkpoints(scratch / run)) steps.push_back(listed.step);
    return steps;
  };
  using Steps = std::vector<std::uint64_t>;
  EXPECT_EQ(steps_kept("three", {3, 0}), (Steps{40, 50, 60}));
  EXPECT_EQ(steps_kept("one", {1, 0}), (Steps{50, 60}));
  EXPECT_EQ(steps_kept("all", {0, 0}), (Steps{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(steps_kept("every", {2, 20}), (Steps{20, 40, 50, 60}));
}

TEST(CheckpointFile, AFailedDeletionIsAWarningAndNoError) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run", {2, 0});
  save(store, State(10));
  save(store, State(20));
  set_faults("io:op=unlink:call=1:eio", 0);
  const auto result = save(store, State(30));
  set_file_hook({});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].cause, CheckpointWarning::Cause::deletion);
  EXPECT_TRUE(contains(result.warnings[0].text, "could not be deleted"));
  EXPECT_TRUE(contains(result.warnings[0].text, "step-00000010"));
  EXPECT_EQ(store.newest_usable().checkpoint->step(), 30U);
}

TEST(CheckpointFile, WhatCouldNotBeDeletedIsTriedAgain) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run", {2, 0});
  save(store, State(10));
  save(store, State(20));
  set_faults("io:path=step-00000010:op=unlink:from=1:eio", 0);
  EXPECT_EQ(save(store, State(30)).warnings.size(), 1U);
  EXPECT_EQ(save(store, State(40)).warnings.size(), 1U) << "of step 10; step 20 went";
  EXPECT_EQ(names_in(store), (std::vector<std::string>{"step-00000010.tmp-removed", "step-00000030", "step-00000040"}));
  set_file_hook({});
  EXPECT_TRUE(save(store, State(50)).warnings.empty());
  EXPECT_EQ(names_in(store), (std::vector<std::string>{"step-00000040", "step-00000050"}));
}

TEST(CheckpointFile, AJournalThatCannotBeWrittenAfterACommitIsAWarning) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  // writes of begin, committing, committed
  set_faults("io:path=journal:op=write:call=3:enospc", 0);
  const auto result = save(store, State(10));
  set_file_hook({});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].cause, CheckpointWarning::Cause::journal);
  EXPECT_TRUE(contains(result.warnings[0].text, "journal.jsonl"));
  EXPECT_EQ(store.newest_usable().checkpoint->step(), 10U);
}

TEST(CheckpointFile, AFullDiskDoesNotKeepAnAttemptThatIsGivenUp) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto folder = store.begin(10, 1);
  (void)write_shard(folder, 0, 1, State(10).share(0, 1));
  set_faults("io:op=write:from=1:enospc", 0);  // not even a line in the journal can be written
  const auto warnings = store.discard(folder);
  set_file_hook({});
  EXPECT_TRUE(names_in(store).empty());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].cause, CheckpointWarning::Cause::journal);
}

TEST(CheckpointFile, AnAttemptThatCannotBeRemovedIsAWarning) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto folder = store.begin(10, 1);
  (void)write_shard(folder, 0, 1, State(10).share(0, 1));
  set_faults("io:op=unlink:call=1:eio", 0);
  const auto warnings = store.discard(folder);
  set_file_hook({});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].cause, CheckpointWarning::Cause::deletion);
  EXPECT_TRUE(contains(warnings[0].text, folder));
}

TEST(CheckpointFile, AFolderThatCannotBeMadeDurableIsNotLeftBehind) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  set_faults("io:op=sync_directory:call=1:eio", 0);
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { (void)store.begin(10, 1); }), "syncing"));
  set_file_hook({});
  EXPECT_TRUE(names_in(store).empty());
}

/// Data are read back from the disk: not from the page cache, and not before they are on the disk.
TEST(CheckpointFile, IsReadBackBehindTheCache) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto folder = store.begin(10, 1);
  std::vector<FileOperation> calls;
  const auto record = [&](const FileCall& call) {
    if (contains(std::string(call.path), ".safetensors")) calls.push_back(call.operation);
    return FileFault::none;
  };
  const auto at = [&](FileOperation operation) { return std::find(calls.begin(), calls.end(), operation) - calls.begin(); };
  const auto reads = [&] { return std::count(calls.begin() + at(FileOperation::drop_cache), calls.end(), FileOperation::read); };
  set_file_hook(record);
  const auto report = write_shard(folder, 0, 1, State(10).share(0, 1));
  set_file_hook({});
  EXPECT_LT(at(FileOperation::sync), at(FileOperation::drop_cache));
  EXPECT_GE(reads(), 4) << "each tensor";
  const auto done = store.commit(folder, std::vector{report}, State(10).meta()).folder;
  for (const auto& look : {std::function([&] { EXPECT_TRUE(verify_checkpoint(done).empty()); }),
                           std::function([&] { EXPECT_TRUE(store.newest_usable().checkpoint.has_value()); })}) {
    calls.clear();
    set_file_hook(record);
    look();
    set_file_hook({});
    EXPECT_GE(reads(), 4);
  }
}

TEST(CheckpointFile, WaitsForTheProcessThatHasTheRun) {
  const Scratch scratch;
  auto first = std::make_unique<CheckpointStore>(scratch / "run");
  save(*first, State(10));
  int waits = 0;
  CheckpointStore second(scratch / "run", {}, [&] {
    if (++waits == 3) first.reset();
    return true;
  });
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(second.newest_usable().checkpoint->step(), 10U);
  const auto gives_up = [&] { return ++waits < 6; };
  EXPECT_TRUE(contains(error_of(ExitCode::start, [&] { const CheckpointStore third(scratch / "run", {}, gives_up); }), "another process"));
  EXPECT_EQ(waits, 6);
}

TEST(CheckpointFile, RefusesASecondProcessAndASecondSaveOfAStep) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  EXPECT_TRUE(contains(error_of(ExitCode::start, [&] { const CheckpointStore second(scratch / "run"); }), "another process"));
  save(store, State(10));
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { (void)store.begin(10, 1); }), "already"));
}

TEST(CheckpointFile, AFullDiskIsNoticedBeforeAnythingIsWritten) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { (void)store.begin(10, std::uint64_t{1} << 60); }), "free"));
  EXPECT_TRUE(names_in(store).empty());
}

TEST(CheckpointFile, AFifthMoreThanTheStateMustBeFree) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto free = free_space(store.folder());
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { (void)store.begin(10, free / 10 * 9); }), "free"));
  store.discard(store.begin(10, free / 10 * 7));
}

TEST(CheckpointFile, TheJournalHasWhatHappenedInOrder) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  save(store, State(10));
  store.discard(store.begin(20, 1));
  save(store, State(30));
  const RunJournal journal(scratch / "run");
  std::vector<std::string> events;
  for (const auto& record : journal.records())
    events.push_back(fmt::format("{} {} {}", to_string(record.event), record.step, record.epoch));
  const std::vector<std::string> expected = {"start 0 0",      "begin 10 1", "committing 10 1", "committed 10 1", "begin 20 2",
                                             "discarded 20 2", "begin 30 3", "committing 30 3", "committed 30 3"};
  EXPECT_EQ(events, expected);
}

TEST(CheckpointFile, DiscardedAttemptsAreGone) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const auto folder = store.begin(10, 1);
  (void)write_shard(folder, 0, 1, State(10).share(0, 1));
  store.discard(folder);
  store.discard(folder);
  EXPECT_TRUE(names_in(store).empty());
  EXPECT_FALSE(store.newest_usable().checkpoint.has_value());
  save(store, State(10));
  EXPECT_TRUE(store.newest_usable().checkpoint.has_value());
}

TEST(CheckpointFile, RefusesReportsThatDoNotFitTogether) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  const State state(10);
  const auto folder = store.begin(10, 1);
  const auto first = write_shard(folder, 0, 2, state.share(0, 2));
  const auto second = write_shard(folder, 1, 2, state.share(1, 2));
  const auto refused = [&](std::vector<ShardReport> reports) {
    return error_of(ExitCode::internal, [&] { store.commit(folder, reports, state.meta()); });
  };
  EXPECT_NE(refused({first}), "");
  EXPECT_NE(refused({first, first}), "");
  auto twice = second;
  twice.tensors = first.tensors;
  EXPECT_TRUE(contains(refused({first, twice}), "added twice"));
  EXPECT_NE(error_of(ExitCode::internal, [&] { store.commit(folder, std::vector{first, second}, State(11).meta()); }), "");
  EXPECT_TRUE(store.commit(folder, std::vector{second, first}, state.meta()).warnings.empty());
}

TEST(CheckpointFile, NoticesMemoryThatChangedAfterItWasHashed) {
  const Scratch scratch;
  CheckpointStore store(scratch / "run");
  std::vector<float> values(100, 1.0F);
  std::vector<float> staging(100);
  std::vector<CheckpointTensor> tensors = {{"weight", FileDType::f32, {100}, std::as_bytes(std::span(staging)), {}}};
  tensors[0].chunks = copy_with_hashes(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(staging)));
  const auto folder = store.begin(10, 400);
  const auto report = write_shard(folder, 0, 1, tensors);
  EXPECT_EQ(report.tensors[0].chunks, tensors[0].chunks);
  staging[7] = 2.0F;
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { (void)write_shard(folder, 0, 1, tensors); }), "'weight' at byte 0"));
}

TEST(CheckpointFile, FaultPointsAreReachedInOrder) {
  const Scratch scratch;
  std::vector<std::string> points;
  set_point_hook([&](std::string_view name) { points.emplace_back(name); });
  CheckpointStore store(scratch / "run");
  save(store, State(10), 1);
  const std::vector<std::string> wanted = {"checkpoint.after_begin",       "checkpoint.after_shard",  "checkpoint.after_manifest",
                                           "checkpoint.after_commit_file", "checkpoint.after_rename", "checkpoint.after_commit"};
  EXPECT_EQ(points, wanted);
}

}  // namespace
}  // namespace millrace::runtime
