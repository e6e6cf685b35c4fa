#include "runtime/checkpoint/run_journal.hpp"

#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

using testing::Scratch;
using testing::slurp;
using testing::spill;

TEST(RunJournal, RemembersInOrder) {
  const Scratch scratch;
  std::string id;
  {
    RunJournal journal(scratch / "run");
    id = journal.run_id();
    EXPECT_EQ(id.size(), 16U);
    EXPECT_EQ(journal.next_epoch(), 1U);
    journal.append({JournalEvent::begin, 10, 1, ""});
    journal.append({JournalEvent::quarantined, 10, 0, "a \"quoted\" reason\nwith a line end and \xff"});
    EXPECT_FALSE(journal.says_committed());
    journal.append({JournalEvent::committed, 10, 1, ""});
  }
  const RunJournal journal(scratch / "run");
  EXPECT_EQ(journal.run_id(), id);
  ASSERT_EQ(journal.records().size(), 4U);
  EXPECT_EQ(journal.records()[1].step, 10U);
  EXPECT_TRUE(journal.records()[2].note.starts_with("a \"quoted\" reason\nwith"));
  EXPECT_TRUE(journal.says_committed());
  EXPECT_EQ(journal.next_epoch(), 2U);
  EXPECT_FALSE(journal.damaged());
}

TEST(RunJournal, ForgetsATornLineAtEveryLength) {
  const Scratch scratch;
  {
    RunJournal journal(scratch / "run");
    journal.append({JournalEvent::committed, 10, 1, ""});
  }
  const auto path = journal_path(scratch / "run");
  const auto whole = slurp(path);
  const auto first = whole.find('\n') + 1;
  for (std::size_t length = first; length < whole.size(); ++length) {
    spill(path, whole.substr(0, length));
    RunJournal journal(scratch / "run");
    EXPECT_FALSE(journal.says_committed());
    journal.append({JournalEvent::begin, 20, 2, ""});
    EXPECT_EQ(RunJournal(scratch / "run").records().size(), 2U) << length;
  }
}

TEST(RunJournal, ADamagedLineMayHaveBeenACommit) {
  const Scratch scratch;
  { const RunJournal journal(scratch / "run"); }
  const auto path = journal_path(scratch / "run");
  spill(path, slurp(path) + "garbage\n");
  const RunJournal journal(scratch / "run");
  EXPECT_TRUE(journal.damaged());
  EXPECT_TRUE(journal.says_committed());
}

TEST(RunJournal, KnowsWhatIsUndecided) {
  const Scratch scratch;
  RunJournal journal(scratch / "run");
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) journal.append({JournalEvent::committing, epoch * 10, epoch, ""});
  journal.append({JournalEvent::committed, 10, 1, ""});
  journal.append({JournalEvent::discarded, 30, 3, ""});
  ASSERT_EQ(journal.undecided().size(), 1U);
  EXPECT_EQ(journal.undecided()[0].step, 20U);
}

TEST(RunJournal, AFailedAppendLeavesWholeLines) {
  const Scratch scratch;
  RunJournal journal(scratch / "run");
  const auto before = slurp(journal_path(scratch / "run"));
  for (std::uint64_t k = 1; k <= 2; ++k) {
    set_file_hook(testing::fault_at(k, FileFault::no_space));
    EXPECT_NE(testing::error_of(ExitCode::storage, [&] { journal.append({JournalEvent::begin, 10, 1, ""}); }), "");
    set_file_hook({});
    EXPECT_EQ(slurp(journal_path(scratch / "run")), before);
  }
  EXPECT_EQ(journal.records().size(), 1U);
}

}  // namespace
}  // namespace millrace::runtime
