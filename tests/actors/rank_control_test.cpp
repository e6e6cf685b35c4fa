#include "actors/rank/rank_control.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/actors/rank_control_bench.hpp"

namespace millrace::actors {
namespace {

using runtime::SpanKind;

std::vector<std::pair<std::int64_t, std::int64_t>> asked_for(const Bench::Seat& seat, bool held_out = false) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const auto& load : seat.loads)
    if (load.held_out == held_out) found.emplace_back(load.step, load.microbatch);
  return found;
}

TEST(RankControl, LoadsThisStepAndTheFirstOfTheNextAndNothingBeyondTheRun) {
  Bench bench({.ranks = 1, .microbatches = 1, .first_step = 3, .steps = 5});
  const auto& seat = *bench.seats[0];
  ASSERT_GE(seat.rank->training_batches(), 3) << "there is room for one more than is asked for";
  bench.begin();
  EXPECT_EQ(asked_for(seat), (std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 0}, {4, 0}}));
  EXPECT_EQ(seat.loads[0].slot, 3 % seat.rank->training_batches());
  bench.train(3);
  bench.train(4);
  EXPECT_EQ(asked_for(seat).size(), 2U) << "no step follows";

  Bench longer({.ranks = 1, .microbatches = 1, .steps = 9});
  longer.begin();
  EXPECT_EQ(asked_for(*longer.seats[0]).size(), 2U) << "of two steps, though there is room for a third";
  longer.train(0);
  EXPECT_EQ(asked_for(*longer.seats[0]).size(), 2U) << "the next step begins when the coordinator orders it";
  longer.train(1);
  EXPECT_EQ(asked_for(*longer.seats[0]).back(), (std::pair<std::int64_t, std::int64_t>(2, 0)));
}

TEST(RankControl, AsksForEveryMicrobatchOnceInOrderAndKeepsSlotsApart) {
  for (const auto* schedule : {"1f1b", "dualpipe"}) {
    Bench bench({.schedule = schedule, .steps = 3});
    bench.begin();
    for (int step = 0; step < 3; ++step) bench.train(step);
    bench.tell(Evaluate{3, 3});
    for (const auto& seat : bench.seats) {
      std::vector<std::pair<std::int64_t, std::int64_t>> all, held_out{{3, 0}, {3, 1}, {3, 2}};
      for (int number = 0; number < 12; ++number) all.emplace_back(number / 4, number % 4);
      EXPECT_EQ(asked_for(*seat), all);
      EXPECT_EQ(asked_for(*seat, true), held_out);
      for (const auto& load : seat->loads) {
        const int first = load.held_out ? seat->rank->training_batches() : 0;
        const int slots = load.held_out ? seat->rank->evaluation_batches() : seat->rank->training_batches();
        EXPECT_EQ(load.slot, first + (load.held_out ? load.microbatch : 4 * load.step + load.microbatch) % slots);
      }
    }
  }
}

TEST(RankControl, NumbersItsActionsAndTellsOfTheFirst) {
  Bench bench({});
  bench.begin();
  EXPECT_EQ(bench.seats[0]->begins, 0);
  bench.train(0);
  bench.train(1);
  for (const auto& seat : bench.seats) {
    ASSERT_EQ(seat->executes.size(), 16U);
    EXPECT_EQ(seat->begins, 1);
    std::vector<int> begun(8, 0);
    for (std::size_t index = 0; index < seat->executes.size(); ++index) {
      const auto& execute = seat->executes[index];
      EXPECT_EQ(execute.index, static_cast<std::int32_t>(index % 8));
      EXPECT_EQ(execute.step, static_cast<std::int64_t>(index) / 8);
      EXPECT_EQ(execute.pass, runtime::pass_of(execute.action.kind));
      EXPECT_EQ(execute.slots.result, execute.action.microbatch.value);
      auto& of_batch = begun[static_cast<std::size_t>(4 * execute.step + execute.action.microbatch.value)];
      EXPECT_EQ(execute.first_of_batch, of_batch++ == 0);
    }
  }
}

/// Bits depend neither on the assignment of layers to ranks, nor on the schedule, nor on how far ahead actions are issued.
TEST(RankControl, EveryPipelineComesToTheSameNumbers) {
  for (const std::int64_t accumulators : {1, 2}) {
    Bench one({.ranks = 1, .accumulators = accumulators});
    one.begin();
    std::vector<std::vector<double>> losses, squares;
    for (int step = 0; step < 3; ++step) {
      one.train(step);
      losses.push_back(one.losses());
      squares.push_back(one.squares());
    }
    EXPECT_NE(losses[0], losses[1]);
    for (const auto* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int ahead : {1, 2}) {
        Bench two({.schedule = schedule, .issue_ahead = ahead, .accumulators = accumulators});
        two.begin();
        for (int step = 0; step < 3; ++step) {
          two.train(step);
          EXPECT_EQ(two.losses(), losses[static_cast<std::size_t>(step)]) << schedule << ", step " << step;
          EXPECT_EQ(two.squares(), squares[static_cast<std::size_t>(step)]) << schedule << ", step " << step;
        }
      }
    }
  }
  Bench halves({.ranks = 1, .accumulators = 2}), mirror({.schedule = "dualpipe"});
  halves.begin();
  mirror.begin();
  for (int step = 0; step < 2; ++step) {
    halves.train(step);
    mirror.train(step);
    EXPECT_EQ(mirror.squares(), halves.squares());
  }
}

TEST(RankControl, ScalesTheLossByItsTargets) {
  std::vector<double> squares;
  for (const int targets : {28, 56, 0}) {
    Bench bench({.ranks = 1, .targets = targets});
    bench.begin();
    bench.train(0);
    squares.push_back(bench.squares().back());
  }
  EXPECT_EQ(squares[0], 4 * squares[1]) << "half the gradient";
  EXPECT_EQ(squares[2], 0) << "a step without a target";
}

TEST(RankControl, GivesTheOptimizerWhatItWasTold) {
  Bench bench({.ranks = 1, .tied = false});
  bench.begin();
  bench.tell(RunStep{0, false, false});
  bench.tell(Optimize{0, 17, 0.375, 0.0625});
  const auto& seat = *bench.seats[0];
  ASSERT_EQ(seat.tasks.back().work, RankTaskKind::optimizer);
  const auto& scalars = seat.tasks.back().scalars;
  EXPECT_EQ(scalars.learning_rate, 0.0625);
  EXPECT_EQ(scalars.gradient_scale, 0.375F);
  EXPECT_EQ(scalars.update, 17);
  const auto answers = seat.reported<Optimized>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].rank, 0);
  EXPECT_EQ(answers[0].step, 0);
}

TEST(RankControl, TellsWhatItWaitsForAndWhoIsToBlame) {
  Bench bench({.first_step = 4});
  auto& first = *bench.seats[0];
  auto& last = *bench.seats[1];
  bench.begin();
  EXPECT_EQ(first.reported<RankReady>().at(0).planned_bytes, first.rank->planned_bytes());
  EXPECT_EQ(last.reported<RankReady>().at(0).rank, 1);

  bench.tell(RunStep{4, false, false}, {"token", "credit"});
  EXPECT_EQ(last.doing(), "rank 1: waits for activation, stage 1, microbatch 0, step 5");
  EXPECT_EQ(last.rank->progress().progress.peer, 0);
  EXPECT_EQ(last.rank->progress().progress.peer_stage, 0);
  EXPECT_EQ(last.rank->progress().progress.finished, 0);
  EXPECT_EQ(first.doing(), "rank 0: waits for gradient, stage 0, microbatch 0, step 5");
  EXPECT_EQ(first.rank->progress().progress.peer, 1);
  EXPECT_EQ(first.rank->progress().progress.peer_stage, 1);
  EXPECT_EQ(first.rank->progress().progress.finished, 2) << "the forwards of the warm-up";

  while (last.doing() != "rank 1: backward, stage 1, microbatch 0, step 5") ASSERT_TRUE(bench.step({"action", "credit"})) << last.doing();
  EXPECT_EQ(last.rank->progress().progress.peer, -1) << "it waits for no other rank";

  while (last.doing() != "rank 1: exchanges gradient sums, step 5") ASSERT_TRUE(bench.step()) << last.doing();
  bench.settle();
  EXPECT_EQ(first.doing(), "rank 0: waits for the coordinator, step 5");
  EXPECT_EQ(last.doing(), "rank 1: waits for the coordinator, step 5");
  EXPECT_EQ(last.rank->progress().progress.finished, -1) << "no list runs";

  bench.tell(Optimize{4, 5, 1, 0.01}, {"work"});
  EXPECT_EQ(first.doing(), "rank 0: optimizer, step 5");
  bench.settle();
  bench.tell(TakeSnapshot{5, "somewhere"}, {"work"});
  EXPECT_EQ(first.doing(), "rank 0: snapshot, step 5");
}

TEST(RankControl, WaitsForBatchesAndForRoom) {
  Bench bench({.ranks = 1, .tied = false});
  auto& seat = *bench.seats[0];
  seat.control->begin();
  seat.control->receive(RunStep{0, false, false});
  EXPECT_EQ(seat.doing(), "rank 0: waits for batch, stage 0, microbatch 0, step 1");
  bench.settle();
  const auto waits = seat.spans(SpanKind::wait);
  ASSERT_GE(waits.size(), 1U);
  EXPECT_EQ(waits[0].reason, runtime::WaitReason::batch);
  EXPECT_EQ(waits[0].begin, seat.spans(SpanKind::step).at(0).begin) << "nothing was done before";

  Bench full({.microbatches = 8});
  full.begin();
  full.tell(RunStep{0, false, false}, {"credit"});
  const auto depth = full.plan.ledger.depths.at(0);
  ASSERT_LT(depth, 8);
  EXPECT_EQ(full.seats[0]->doing(), fmt::format("rank 0: waits for credit, stage 0, microbatch {}, step 1", depth));
  EXPECT_EQ(full.seats[0]->rank->progress().progress.peer, 1);
}

TEST(RankControl, TracesWhatItDidAndNoWaitWhereNothingWasMissing) {
  Bench bench({.ranks = 1, .first_step = 2, .tied = false});
  bench.begin();
  bench.train(2);
  bench.tell(TakeSnapshot{3, "somewhere"});
  auto& seat = *bench.seats[0];
  EXPECT_TRUE(seat.spans(SpanKind::wait).empty()) << "all tokens were loaded ahead";
  EXPECT_EQ(seat.spans(SpanKind::forward).size(), 4U);
  EXPECT_EQ(seat.spans(SpanKind::backward).size(), 4U);
  EXPECT_EQ(seat.spans(SpanKind::optimizer).size(), 3U) << "sums, squares, update";
  ASSERT_EQ(seat.spans(SpanKind::step).size(), 1U);
  ASSERT_EQ(seat.spans(SpanKind::snapshot).size(), 1U);
  for (const auto& record : seat.rank->trace().snapshot()) {
    EXPECT_EQ(record.step, runtime::StepId(2)) << to_string(record.kind);
    const bool action = record.kind == SpanKind::forward || record.kind == SpanKind::backward;
    EXPECT_TRUE(record.kind == SpanKind::step || (action ? record.end > record.begin : record.end - record.begin == 1));
  }
  const auto actions = seat.spans(SpanKind::forward);
  for (int microbatch = 0; microbatch < 4; ++microbatch)
    EXPECT_EQ(actions[static_cast<std::size_t>(microbatch)].microbatch, runtime::MicrobatchId(microbatch));
}

TEST(RankControl, TracesTheWaitForAToken) {
  Bench bench({});
  bench.begin();
  bench.train(0);
  bench.train(1);
  const auto waits = bench.seats[1]->spans(SpanKind::wait);
  ASSERT_FALSE(waits.empty());
  EXPECT_EQ(waits[0].reason, runtime::WaitReason::activation);
  EXPECT_EQ(waits[0].peer, runtime::RankId(0));
  EXPECT_EQ(waits[0].microbatch, runtime::MicrobatchId(0));
  EXPECT_EQ(waits[0].produced, bench.seats[0]->spans(SpanKind::forward).at(0).end) << "when the producer's forward ended";
  const auto of_gradient = bench.seats[0]->spans(SpanKind::wait);
  ASSERT_FALSE(of_gradient.empty());
  EXPECT_EQ(of_gradient[0].reason, runtime::WaitReason::gradient);
  EXPECT_EQ(of_gradient[0].produced, bench.seats[1]->spans(SpanKind::backward).at(0).end);
  EXPECT_EQ(of_gradient[0].begin, bench.seats[0]->spans(SpanKind::forward).at(1).end) << "it ran out of work there";
}

TEST(RankControl, ReportsItsStep) {
  Bench bench({.first_step = 4});
  bench.begin();
  bench.train(4);
  bench.train(5);
  for (int rank = 0; rank < 2; ++rank) {
    const auto reports = bench.seats[static_cast<std::size_t>(rank)]->reported<StepReport>();
    ASSERT_EQ(reports.size(), 2U);
    for (int step = 0; step < 2; ++step) {
      const auto& report = reports[static_cast<std::size_t>(step)];
      EXPECT_EQ(report.rank, rank);
      EXPECT_EQ(report.step, 4 + step);
      ASSERT_EQ(report.losses.size(), rank == 1 ? 1U : 0U) << "of the head";
      if (rank == 1) {
        EXPECT_EQ(report.losses[0].sums.size(), 4U);
      }
      ASSERT_EQ(report.metrics.size(), step_metrics.size());
      EXPECT_GT(report.metrics[metric_index("resident_bytes")], 0x1p20);
      EXPECT_EQ(report.device_total, 0U);
      const auto spans = bench.seats[static_cast<std::size_t>(rank)]->spans(SpanKind::step);
      EXPECT_GT(report.times.wall, 0);
      EXPECT_LE(report.times.wall, spans[static_cast<std::size_t>(step)].end - spans[static_cast<std::size_t>(step)].begin);
      std::int64_t compute = 0;
      for (const auto kind : {SpanKind::forward, SpanKind::backward})
        for (const auto& record : bench.seats[static_cast<std::size_t>(rank)]->spans(kind))
          if (record.step == runtime::StepId(report.step)) compute += record.end - record.begin;
      EXPECT_GE(report.times.compute, compute) << "of this step, with all its actions";
    }
  }
}

TEST(RankControl, WaitsWithItsReportForTheSlotOfItsSums) {
  Bench bench({});
  bench.begin();
  bench.tell(RunStep{0, false, false}, {"credit", "token"});
  // Delivers all tokens and credits but the last credit, which returns the slot of rank 1's sums.
  const auto reported = [&] { return bench.seats[1]->reported<StepReport>().size(); };
  while (reported() == 0) ASSERT_TRUE(bench.step());
  bench.settle();
  EXPECT_EQ(reported(), 1U) << "once";
  EXPECT_EQ(bench.seats[0]->reported<StepReport>().size(), 1U);
  const auto sent = [](const Bench::Seat& seat, RankTaskKind work) {
    return std::ranges::count_if(seat.tasks, [&](const RankTask& task) { return task.work == work; });
  };
  for (const auto& seat : bench.seats)
    for (const auto work : {RankTaskKind::sums, RankTaskKind::sums_sent, RankTaskKind::sums_added, RankTaskKind::squares})
      EXPECT_EQ(sent(*seat, work), 1);
}

// Copies wait for each other with their sums alone, so a rank may get those of a step that it has not begun.
TEST(RankControl, KeepsTheSumsOfACopyThatIsAStepAhead) {
  const auto squares = [](bool ahead) {
    Bench bench({.copies = 2, .ranks = 1, .accumulators = 2});
    bench.begin();
    for (std::int64_t step = 0; step < 3; ++step) {
      for (auto& seat : bench.seats) {
        seat->control->receive(RunStep{step, false, false});
        if (ahead) bench.settle();
      }
      bench.settle();
      for (const auto& seat : bench.seats) EXPECT_EQ(seat->reported<StepReport>().size(), static_cast<std::size_t>(step) + 1);
      bench.tell(Optimize{step, step + 1, 0.5, 0.01});
    }
    return bench.squares();
  };
  EXPECT_EQ(squares(true), squares(false));
}

TEST(RankControl, AsksTheDeviceInTheFirstStepsAndThenNowAndAgain) {
  std::size_t asked = 0;
  Bench bench({.ranks = 1, .microbatches = 1, .steps = 300, .tied = false, .device_memory = [&] {
                 return kernels::DeviceMemory{++asked, 1000};
               }});
  bench.begin();
  std::vector<std::int64_t> steps;
  for (int step = 0; step < 131; ++step) {
    const auto before = asked;
    bench.train(step);
    if (asked > before) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1, 2, 128}));
  const auto reports = bench.seats[0]->reported<StepReport>();
  EXPECT_EQ(reports[1].device_used, 2U);
  EXPECT_EQ(reports[127].device_used, 3U) << "as it was when it was last asked";
  EXPECT_EQ(reports[128].device_used, 4U);
  EXPECT_EQ(reports[130].device_total, 1000U);
}

TEST(RankControl, RunsAStepAgainFromItsStart) {
  Bench bench({}), other({});
  bench.begin();
  other.begin();
  bench.train(0);
  other.train(0);
  bench.tell(RunStep{1, false, false});
  const auto losses = bench.losses();
  const auto squares = bench.squares();
  const auto loaded = bench.seats[0]->loads.size();
  bench.tell(RunStep{1, true, true});
  EXPECT_EQ(bench.seats[0]->loads.at(loaded).step, 1) << "its tokens once more";
  EXPECT_EQ(bench.seats[0]->loads.at(loaded).microbatch, 0);
  EXPECT_EQ(bench.losses(), losses);
  EXPECT_EQ(bench.squares(), squares) << "what the first time left in the sums is gone";
  bench.tell(Optimize{1, 2, 0.5, 0.01});
  other.train(1);
  bench.train(2);
  other.train(2);
  EXPECT_EQ(bench.losses(), other.losses());
  EXPECT_EQ(bench.squares(), other.squares());
}

TEST(RankControl, PassesOverBatchesThatWereAskedForBeforeAStepIsRunAgain) {
  Bench bench({.ranks = 1, .microbatches = 1, .tied = false}), other({.ranks = 1, .microbatches = 1, .tied = false});
  bench.begin();
  bench.train(0);
  bench.tell(RunStep{1, false, false}, {"batch"});  // the batches of the next step are still being loaded
  bench.tell(RunStep{1, false, true});
  EXPECT_EQ(bench.seats[0]->reported<StepReport>().size(), 3U);
  bench.tell(Optimize{1, 2, 0.5, 0.01});
  other.begin();
  other.train(0);
  other.train(1);
  for (int step = 2; step < 4; ++step) {
    bench.train(step);
    other.train(step);
    EXPECT_EQ(bench.losses(), other.losses());
  }
}

TEST(RankControl, EvaluatesWithoutATraceInTheTraining) {
  Bench bench({}), one({.ranks = 1}), without({});
  for (auto* each : {&bench, &one, &without}) {
    each->begin();
    each->train(0);
  }
  for (auto* each : {&bench, &one}) each->tell(Evaluate{1, 3});
  EXPECT_TRUE(bench.seats[0]->reported<EvaluationReport>().at(0).losses.empty());
  const auto report = bench.seats[1]->reported<EvaluationReport>().at(0);
  EXPECT_EQ(report.rank, 1);
  ASSERT_EQ(report.losses.size(), 1U);
  const auto& sums = report.losses[0].sums;
  ASSERT_EQ(sums.size(), 3U);
  EXPECT_EQ(sums, one.seats[0]->reported<EvaluationReport>().at(0).losses.at(0).sums);
  EXPECT_NE(sums[0], sums[1]);
  EXPECT_EQ(bench.seats[1]->executes.back().pass, runtime::Pass::evaluate);
  EXPECT_EQ(bench.seats[1]->rank->progress().progress.finished, -1) << "of a training list alone";
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(bench.seats[rank]->doing(), fmt::format("rank {}: waits for the coordinator, step 2", rank))
        << "nothing of the evaluation is left";
    EXPECT_EQ(bench.seats[rank]->rank->progress().progress.wait, 0);
  }
  for (auto* each : {&bench, &without}) each->train(1);
  EXPECT_EQ(bench.losses(), without.losses());
  EXPECT_EQ(bench.squares(), without.squares());
}

TEST(RankControl, LeavesAnEvaluationAndGoesOn) {
  for (const int before : {0, 1, 2, 5, 9}) {
    Bench bench({}), without({});
    for (auto* each : {&bench, &without}) {
      each->begin();
      each->train(0);
    }
    for (auto& seat : bench.seats) seat->control->receive(Evaluate{1, 3});
    for (int event = 0; event < before; ++event) bench.step();
    std::vector<std::size_t> executed;
    for (auto& seat : bench.seats) {
      seat->control->receive(Evaluate{1, 0});
      executed.push_back(seat->executes.size());
    }
    bench.settle();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(bench.seats[rank]->reported<EvaluationReport>().size(), 1U) << "the coordinator is answered";
      EXPECT_EQ(bench.seats[rank]->executes.size(), executed[rank]) << "nothing more is computed";
    }
    bench.tell(Evaluate{1, 3});
    for (auto* each : {&bench, &without}) each->train(1);
    EXPECT_EQ(bench.losses(), without.losses());
    EXPECT_EQ(bench.squares(), without.squares());
    EXPECT_EQ(bench.seats[1]->reported<EvaluationReport>().back().losses.at(0).sums.size(), 3U);
  }
  Bench bench({});
  bench.begin();
  bench.tell(Evaluate{0, 0});
  bench.train(0);
  EXPECT_EQ(bench.losses().size(), 4U) << "with no evaluation under way there is nothing to leave";
}

TEST(RankControl, ComputesTheLogitsOfAPosition) {
  Bench bench({}), one({.ranks = 1});
  std::vector<std::vector<float>> rows;
  const std::vector<std::int32_t> text{7, 3, 9};
  for (auto* each : {&bench, &one}) {
    each->begin();
    each->train(0);
    each->tell(ComputeLogits{text, 2, {}, {}});
    each->tell(ComputeLogits{text, 2, {0, 1, 2}, {1, 1, 1}});
    each->tell(ComputeLogits{{7, 3, 9, 4, 4, 4, 4, 4}, 2, {}, {}});
    each->tell(ComputeLogits{text, 1, {}, {}});
    each->tell(ComputeLogits{text, 2, {0, 1, 3}, {1, 1, 1}});
    each->tell(ComputeLogits{text, 2, {0, 1, 2}, {1, 2, 2}});
    for (const auto& report : each->seats.back()->reported<LogitsReport>()) rows.push_back(report.logits);
  }
  EXPECT_TRUE(bench.seats[0]->reported<LogitsReport>().at(0).logits.empty()) << "the head answers";
  EXPECT_EQ(bench.seats[1]->executes.back().pass, runtime::Pass::logits);
  EXPECT_EQ(bench.seats[0]->executes.back().pass, runtime::Pass::evaluate);
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[0].size(), 61U);
  EXPECT_EQ(rows[0], rows[1]) << "places and one document, where nothing is said";
  EXPECT_EQ(rows[0], rows[2]) << "what follows is not seen";
  EXPECT_NE(rows[0], rows[3]);
  EXPECT_NE(rows[0], rows[4]);
  EXPECT_NE(rows[0], rows[5]);
  for (std::size_t row = 0; row < 6; ++row) EXPECT_EQ(rows[row], rows[6 + row]);
}

TEST(RankControl, TakesSnapshotsInTheOrderInWhichTheyWereAskedFor) {
  Bench bench({});
  bench.begin();
  bench.train(0);
  for (auto& seat : bench.seats) {
    seat->control->receive(TakeSnapshot{1, "one"});
    seat->control->receive(TakeSnapshot{2, "two"});
  }
  bench.settle();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto& seat = *bench.seats[static_cast<std::size_t>(rank)];
    const auto taken = seat.reported<SnapshotTaken>();
    ASSERT_EQ(taken.size(), 2U);
    ASSERT_EQ(seat.shards.size(), 2U);
    for (std::size_t index = 0; index < 2; ++index) {
      EXPECT_EQ(taken[index].rank, rank);
      EXPECT_EQ(taken[index].step, static_cast<std::int64_t>(index) + 1);
      ASSERT_EQ(taken[index].copies.size(), 1U) << "the tied table";
      EXPECT_EQ(taken[index].copies[0].name, bench.plan.parameters[0].name);
      EXPECT_EQ(taken[index].copies[0].hash, bench.seats[0]->reported<SnapshotTaken>()[0].copies[0].hash);
      EXPECT_EQ(seat.shards[index].rank, rank);
      EXPECT_EQ(seat.shards[index].step, static_cast<std::int64_t>(index) + 1);
      EXPECT_EQ(seat.shards[index].folder, index == 0 ? "one" : "two");
    }
    EXPECT_EQ(seat.spans(SpanKind::snapshot).at(0).step, runtime::StepId(0)) << "of the step that it follows";
  }
}

TEST(RankControl, CollectsCapturesAndGradientsInParts) {
  CapturedTensor large{"large", {2, (1 << 20) + 5}, std::vector<float>((std::size_t{2} << 20) + 10)};
  std::iota(large.values.begin(), large.values.end(), 1.0F);
  Bench bench({.captured = [&] { return std::vector<CapturedTensor>{{"empty", {0}, {}}, large}; }});
  bench.begin();
  bench.train(0);
  bench.tell(Collect{});
  std::set<std::string> names;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    auto& seat = *bench.seats[static_cast<std::size_t>(rank)];
    const auto parts = seat.reported<Collected>();
    std::vector<float> values;
    std::size_t empty = 0, of_large = 0;
    for (std::size_t index = 0; index < parts.size(); ++index) {
      EXPECT_EQ(parts[index].rank, rank);
      EXPECT_EQ(parts[index].last, index + 1 == parts.size());
      const auto& tensor = parts[index].tensor;
      EXPECT_LE(tensor.values.size(), std::size_t{1} << 20);
      if (tensor.name == "empty") ++empty;
      if (tensor.name != "large") continue;
      ++of_large;
      EXPECT_EQ(tensor.shape, large.shape);
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    }
    EXPECT_EQ(empty, 1U) << "a tensor without elements is reported";
    EXPECT_EQ(of_large, 3U);
    EXPECT_TRUE(values == large.values);
    for (const auto* stage : seat.rank->compute().stages()) {
      for (const auto& parameter : stage->shard().tensors()) {
        const auto found = std::ranges::find_if(parts, [&](const Collected& part) { return part.tensor.name == "grad." + parameter.name; });
        EXPECT_EQ(found != parts.end(), parameter.is_owner()) << parameter.name;
        if (!parameter.is_owner()) continue;
        EXPECT_TRUE(names.insert(parameter.name).second) << "one rank reports a tensor";
        EXPECT_EQ(found->tensor.shape, parameter.shape.sizes());
        ASSERT_EQ(found->tensor.values.size(), static_cast<std::size_t>(parameter.elements()));
        const auto gradient = stage->shard().gradient(parameter);
        EXPECT_EQ(std::memcmp(found->tensor.values.data(), gradient.data, gradient.bytes()), 0);
      }
    }
  }
  EXPECT_EQ(names.size(), bench.plan.parameters.size());
}

TEST(RankControl, FailsOnceAndSaysWhere) {
  for (const bool in_action : {true, false}) {
    Bench bench({.first_step = 4});
    bench.begin();
    bench.tell(RunStep{4, false, false}, {"action"});
    auto& seat = *bench.seats[0];
    const auto action = seat.executes.at(1).action;
    seat.control->failed({action, in_action, 7, "the cause"});
    seat.control->failed({action, in_action, 8, "what follows from it"});
    const auto failures = seat.reported<StageFailed>();
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].rank, 0);
    EXPECT_EQ(failures[0].step, 4);
    EXPECT_EQ(failures[0].code, 7);
    EXPECT_EQ(failures[0].cause, "the cause");
    EXPECT_EQ(failures[0].stage, in_action ? 0 : -1);
    EXPECT_EQ(failures[0].microbatch, in_action ? 1 : -1);
    EXPECT_EQ(failures[0].action, in_action ? "0F1" : "");
    const auto executed = seat.executes.size();
    bench.settle();
    EXPECT_EQ(seat.executes.size(), executed) << "nothing follows";
  }
}

TEST(RankControl, StopsWhenItIsTold) {
  Bench bench({});
  bench.begin();
  bench.tell(Stop{});
  for (const auto& seat : bench.seats) EXPECT_EQ(seat->stops, 1);
}

}  // namespace
}  // namespace millrace::actors
