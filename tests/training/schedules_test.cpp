#include "tests/training/schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/training/command.hpp"
#include "tests/training/examined_run.hpp"
#include "tests/training/small_run.hpp"

// With every schedule a run has the bits of one rank: each in one process here, and some in four; schedules_full_test.cpp has the
// rest.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  bool turn = false;  // every other schedule runs in bf16 with a tied table
  for (const auto& schedule : schedule_cases()) {
    turn = !turn;
    all.push_back(schedule_run(schedule, turn ? "fp32" : "bf16", !turn, 1));
    const bool everywhere = schedule.name == "interleaved_zb" || schedule.name == "dualpipe" || schedule.name == "table_by_hand";
    if (everywhere) all.push_back(schedule_run(schedule, "bf16", true, 4));
  }
  return all;
}

class Schedules : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(Schedules, HaveTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Some, Schedules, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

TEST(DualPipe, GoesOnAsOneReplicaWithTwoAccumulators) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  const auto train = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"train",
                                 "model.preset=tiny",
                                 "data.text=" + folder / "text",
                                 "data.held_out=6",
                                 "evaluate.batches=3",
                                 "train.batch=2",
                                 "train.sequence=32",
                                 "train.microbatches=8",
                                 "train.threads=1",
                                 "train.steps=2",
                                 "sample.tokens=8",
                                 "run.directory=" + folder / "run"};
    all.insert(all.end(), words.begin(), words.end());
    return run_job(1, all);
  };
  const auto text = [](const JobResult& job) {  // from the sample's title to the line below it
    const auto begin = std::min(job.out.find("sample"), job.out.size());
    return job.out.substr(begin, job.out.rfind("---") - begin);
  };
  const auto first = train({"pipeline.ranks=4", "pipeline.schedule=dualpipe"});
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_NE(first.out.find("sample"), std::string::npos) << first.out;
  // One more step of both: the finished run itself has nothing left to do.
  std::filesystem::copy(folder / "run", folder / "copy", std::filesystem::copy_options::recursive);
  const auto longer = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"train.steps=3", "train.schedule_steps=2"});
    return train(words);
  };
  const auto go_on = longer({"pipeline.ranks=4", "pipeline.schedule=dualpipe"});
  ASSERT_EQ(go_on.code, 0) << go_on.out << go_on.err;
  const auto same = longer({"pipeline.ranks=2", "train.accumulators=2", "run.directory=" + folder / "copy"});
  ASSERT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_EQ(text(go_on), text(same));
  const auto other = longer({"pipeline.ranks=2"});
  EXPECT_EQ(other.code, static_cast<int>(ExitCode::checkpoint)) << other.out << other.err;
  EXPECT_NE((other.out + other.err).find("train.accumulators"), std::string::npos) << other.out << other.err;
}

std::set<std::string> tensors_of(const actors::Rank& rank) {
  std::set<std::string> names;
  for (const auto* stage : rank.compute().stages())
    for (const auto& tensor : stage->shard().tensors()) names.insert(tensor.name);
  return names;
}

TEST(DualPipe, HoldsEachWeightOnTwoRanksAndLetsOneSpeak) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  run_examined(folder / "text", {"model.tie_word_embeddings=true", "train.microbatches=8", "train.steps=2", "pipeline.schedule=dualpipe"},
               [](actors::Pipeline& pipeline) {
                 const auto ranks = pipeline.ranks();
                 std::set<std::string> spoken;
                 for (std::size_t r = 0; r < ranks.size(); ++r) {
                   const auto& own = *ranks[r];
                   const auto& twin = *ranks[ranks.size() - 1 - r];
                   ASSERT_EQ(tensors_of(own), tensors_of(twin));
                   for (const auto& name : tensors_of(own)) {
                     const auto& shard = own.compute().shard_with(name);
                     const auto& other = twin.compute().shard_with(name);
                     EXPECT_NE(shard.layout().at(name).is_owner(), other.layout().at(name).is_owner()) << name;
                     if (shard.layout().at(name).is_owner()) spoken.insert(name);
                     const auto mine = shard.master(name), his = other.master(name);
                     EXPECT_TRUE(std::equal(mine.begin(), mine.end(), his.begin(), his.end())) << name;
                   }
                 }
                 const auto& plan = ranks.front()->plan();
                 EXPECT_EQ(spoken.size(), plan.parameters.size());
                 for (const auto& message : plan.sums) {
                   const auto counters = ranks.front()->link(message.channel).counters();
                   EXPECT_EQ(counters.messages_sent, 2);
                   EXPECT_EQ(counters.bytes_sent, 2 * static_cast<std::int64_t>(message.bytes()));
                 }
                 EXPECT_EQ(plan.sums.size(), 4U);
               });
}

TEST(VPlacement, HoldsATiedTableOnce) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  for (const std::string schedule : {"zb-v", "dualpipe-v"}) {
    run_examined(folder / "text",
                 {"model.layers=8", "model.tie_word_embeddings=true", "train.microbatches=8", "train.steps=1", "pipeline.chunks=2",
                  "pipeline.schedule=" + schedule},
                 [](actors::Pipeline& pipeline) {
                   const auto& plan = pipeline.ranks().front()->plan();
                   const auto& table = plan.parameters.front().name;
                   EXPECT_EQ(plan.channels().size(), plan.edges.size()) << "a table that is held once is not exchanged";
                   for (auto* rank : pipeline.ranks()) {
                     ASSERT_EQ(tensors_of(*rank).contains(table), rank->id().value == 0);
                     if (rank->id().value != 0) continue;
                     const auto& first = rank->compute().stage(runtime::StageId(0)).shard_layout();
                     const auto& last = rank->compute().stage(runtime::StageId(7)).shard_layout();
                     ASSERT_EQ(first.at(table).uses.size(), 2U);
                     EXPECT_EQ(first.at(table).uses[1].stage, last.stage);
                     EXPECT_EQ(last.find(table), nullptr) << "the head reads the table in the embedding's shard";
                     ASSERT_EQ(last.borrowed.size(), 1U);
                     EXPECT_EQ(last.borrowed.front().name, table);
                     EXPECT_EQ(last.accumulators.size(), last.tensors.size() + 1) << "and has a gradient sum for its use";
                   }
                 });
  }
}

}  // namespace
}  // namespace millrace::tests
