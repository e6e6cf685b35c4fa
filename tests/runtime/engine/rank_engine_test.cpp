// One engine, event by event.

#include "runtime/engine/rank_engine.hpp"

#include "runtime/schedule/ledger.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

constexpr StepId step{7};

// The middle rank of three; edges: 0 in and 1 out for activations, 3 in and 2 out for gradients.
struct Middle {
  explicit Middle(Schedule chosen, std::vector<int> depths = {}, int issue_ahead = 2)
      : schedule(std::move(chosen)),
        ledger(make_ledger(schedule)),
        plan(make_rank_plan(schedule, RankId{1}, ledger.stages)),
        engine({RankId{1}, edges_of(schedule.placement), depths.empty() ? ledger.depths : depths, issue_ahead}) {}
  void start() {
    engine.start(plan, step);
    for (int m = 0; m < schedule.microbatches; ++m) engine.batch_ready(MicrobatchId{m});
  }
  Schedule schedule;
  Ledger ledger;
  RankPlan plan;
  RankEngine engine;
};

constexpr EdgeId activation_in{0}, activation_out{1}, gradient_out{2}, gradient_in{3};

std::string issued(const Decisions& decisions) {
  std::string text;
  for (const Issue& issue : decisions.issues) text += (text.empty() ? "" : " ") + to_string(issue.action);
  return text;
}

TEST(RankEngine, WaitsForEachThingAndSaysSo) {
  Middle rank(gpipe(3, 2));
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for nothing");
  EXPECT_EQ(issued(rank.engine.start(rank.plan, step)), "");
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for the activation of microbatch 0 from stage 0 on rank 0, before 1F0");
  EXPECT_EQ(issued(rank.engine.boundary_arrived(activation_in, 0)), "");
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for the batch of microbatch 0, before 1F0");
  EXPECT_EQ(issued(rank.engine.batch_ready(MicrobatchId{0})), "1F0");
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 runs 1F0");
  rank.engine.batch_ready(MicrobatchId{1});
  EXPECT_EQ(issued(rank.engine.boundary_arrived(activation_in, 1)), "1F1");
  rank.engine.entry_finished(parse_action("1F0"));
  rank.engine.entry_finished(parse_action("1F1"));
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for the gradient of microbatch 0 from stage 2 on rank 2, before 1B0");
  EXPECT_EQ(rank.engine.wait().peer, RankId{2});
}

TEST(RankEngine, BeginsNothingOnWeightsThatAreAway) {
  Middle rank(gpipe(3, 2));
  rank.engine.weights_leave(StageId{1});
  rank.start();
  EXPECT_EQ(issued(rank.engine.boundary_arrived(activation_in, 0)), "");
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for parameters of stage 1 from ranks that hold the same weights, before 1F0");
  EXPECT_EQ(issued(rank.engine.weights_arrived(StageId{1})), "1F0");
  EXPECT_EQ(issued(rank.engine.boundary_arrived(activation_in, 1)), "1F1");
  expect_contains(error_of(ExitCode::internal, [&] { rank.engine.weights_arrived(StageId{1}); }),
                  "the weights of stage 1 arrived, which were not being exchanged");
}

// With one slot for gradients an action that makes some waits until those of the one before are added; the next step begins anew.
TEST(RankEngine, MakesNoGradientsWithoutASlotForThem) {
  const Schedule schedule = one_f_one_b(1, 3);
  const Ledger ledger = make_ledger(schedule);
  const RankPlan plan = make_rank_plan(schedule, RankId{0}, ledger.stages);
  RankEngine engine({.rank = RankId{0}, .edges = {}, .depths = {}, .issue_ahead = 1, .leaves = 1});
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(issued(engine.start(plan, step)), "");
    EXPECT_EQ(issued(engine.batch_ready(MicrobatchId{0})), "0F0");
    for (int m = 1; m < 3; ++m) engine.batch_ready(MicrobatchId{m});
    expect_contains(error_of(ExitCode::internal, [&] { engine.leaf_added(); }), "only 0 actions have made some");
    EXPECT_EQ(issued(engine.entry_finished(parse_action("0F0"))), "0B0") << "the slot is free";
    EXPECT_EQ(issued(engine.entry_finished(parse_action("0B0"))), "0F1");
    EXPECT_EQ(issued(engine.entry_finished(parse_action("0F1"))), "");
    EXPECT_EQ(engine.wait().reason, WaitReason::replicas);
    EXPECT_EQ(issued(engine.leaf_added()), "0B1");
    EXPECT_EQ(issued(engine.entry_finished(parse_action("0B1"))), "0F2");
    EXPECT_EQ(issued(engine.leaf_added()), "");
    EXPECT_EQ(issued(engine.entry_finished(parse_action("0F2"))), "0B2");
    EXPECT_TRUE(engine.entry_finished(parse_action("0B2")).finished);
  }
}

// The last action that adds to the gradient sums of each stage of the rank.
TEST(RankPlan, KnowsTheLastGradients) {
  const Schedule schedule = zb_v(2, 4);
  const Ledger ledger = make_ledger(schedule);
  for (const RankId rank : {RankId{0}, RankId{1}}) {
    const RankPlan plan = make_rank_plan(schedule, rank, ledger.stages);
    for (int stage = 0; stage < 4; ++stage) {
      const auto& last = plan.last_gradients.at(static_cast<std::size_t>(stage));
      ASSERT_EQ(last.has_value(), schedule.placement.rank_of(StageId{stage}) == rank) << stage;
      if (!last) continue;
      EXPECT_EQ(last->stage, StageId{stage});
      EXPECT_TRUE(ends_microbatch(last->kind));
      EXPECT_EQ(last->microbatch, MicrobatchId{3});
    }
  }
  const Schedule forward = forward_only(schedule.placement, 2);
  for (const auto& last : make_rank_plan(forward, RankId{0}, ledger.stages).last_gradients) EXPECT_FALSE(last.has_value());
}

TEST(RankEngine, RunsTheSegmentsOfAnActionInOrder) {
  const Schedule schedule = one_f_one_b(3, 2);
  const Ledger ledger = make_ledger(schedule);
  std::vector<StageShape> shapes(3);
  shapes[1].of(ActionKind::forward) = {{-1, 1}, {0, 0}};
  const RankPlan plan = make_rank_plan(schedule, RankId{1}, ledger.stages, shapes);
  RankEngine engine({RankId{1}, edges_of(schedule.placement), ledger.depths, 2});
  engine.start(plan, step);
  for (int m = 0; m < 2; ++m) engine.batch_ready(MicrobatchId{m});
  // The second segment is not issued before the exchange has ended, whatever may be ahead; nor is what follows it in the list.
  const Decisions first = engine.boundary_arrived(activation_in, 0);
  ASSERT_EQ(issued(first), "1F0");
  EXPECT_EQ(first.issues[0].segment, 0);
  EXPECT_EQ(first.issues[0].posts, 1);
  EXPECT_EQ(first.issues[0].first_exchange, 0);
  EXPECT_EQ(issued(engine.boundary_arrived(activation_in, 1)), "");
  EXPECT_EQ(issued(engine.entry_finished(parse_action("1F0"), 0)), "");
  EXPECT_EQ(engine.wait().reason, WaitReason::exchange);
  EXPECT_EQ(engine.wait().exchange, 0);
  EXPECT_EQ(describe(engine.wait()), "rank 1 waits for exchange 0 with the owners of experts, before segment 1 of 1F0");
  const Decisions second = engine.exchange_ended(0);
  ASSERT_EQ(issued(second), "1F0 1F1");
  EXPECT_EQ(second.issues[0].segment, 1);
  EXPECT_EQ(second.issues[1].first_exchange, 1);
  EXPECT_EQ(engine.exchange_ended(1).issues.size(), 0U);  // the newest issued entry has posted it
  const Decisions done = engine.entry_finished(parse_action("1F0"), 1);
  ASSERT_EQ(done.sends.size(), 1U);  // only the last segment completes the boundary
  EXPECT_EQ(done.sends[0].edge, activation_out);
  EXPECT_THROW(engine.exchange_ended(1), Error);  // twice
  EXPECT_THROW(engine.exchange_ended(2), Error);  // not posted
  EXPECT_THROW(engine.entry_finished(parse_action("1F1"), 1), Error);
}

TEST(RankEngine, SendsWhenFinishedAndReleasesAfterTheLastUse) {
  Middle rank(zb_h1(3, 1));
  rank.start();
  const Issue forward = rank.engine.boundary_arrived(activation_in, 0).issues.at(0);
  EXPECT_EQ(forward.step, step);
  EXPECT_EQ(forward.activation.sequence, 0);
  EXPECT_EQ(forward.output.edge, activation_out);
  EXPECT_FALSE(forward.gradient.present());

  const Decisions after_forward = rank.engine.entry_finished(parse_action("1F0"));
  ASSERT_EQ(after_forward.sends.size(), 1u);
  EXPECT_EQ(after_forward.sends[0].edge, activation_out);
  EXPECT_TRUE(after_forward.releases.empty()) << "the slot is the saved input";

  EXPECT_EQ(issued(rank.engine.boundary_arrived(gradient_in, 0)), "1I0 1W0");
  const Decisions after_input = rank.engine.entry_finished(parse_action("1I0"));
  ASSERT_EQ(after_input.sends.size(), 1u);
  EXPECT_EQ(after_input.sends[0].edge, gradient_out);
  EXPECT_TRUE(after_input.releases.empty());
  EXPECT_FALSE(after_input.finished);

  const Decisions after_weight = rank.engine.entry_finished(parse_action("1W0"));
  EXPECT_TRUE(after_weight.sends.empty());
  ASSERT_EQ(after_weight.releases.size(), 2u);
  EXPECT_EQ(after_weight.releases[0].edge, activation_in);
  EXPECT_EQ(after_weight.releases[1].edge, gradient_in);
  EXPECT_TRUE(after_weight.finished);
  EXPECT_FALSE(rank.engine.running());
}

TEST(RankEngine, IssueAheadIsBounded) {
  for (int ahead : {1, 2, 3}) {
    Middle rank(gpipe(3, 4), {}, ahead);
    rank.start();
    int running = 0;
    for (int m = 0; m < 4; ++m) running += static_cast<int>(rank.engine.boundary_arrived(activation_in, m).issues.size());
    EXPECT_EQ(running, ahead);
    EXPECT_EQ(rank.engine.entry_finished(parse_action("1F0")).issues.size(), 1u);
  }
}

TEST(RankEngine, AFullOutputRingHoldsTheListBack) {
  Middle rank(gpipe(3, 3), {3, 1, 3, 3});
  rank.start();
  for (int m = 0; m < 3; ++m) rank.engine.boundary_arrived(activation_in, m);
  EXPECT_EQ(rank.engine.issued(), 1);
  rank.engine.entry_finished(parse_action("1F0"));
  EXPECT_EQ(describe(rank.engine.wait()), "rank 1 waits for a free slot towards stage 2 on rank 2, before 1F1");
  EXPECT_EQ(issued(rank.engine.credit_returned(activation_out, 0)), "1F1");
  EXPECT_EQ(rank.engine.issued(), 2);
}

TEST(RankEngine, ReleasesInOrderWhereWeightGradientsLag) {
  // B of microbatch 1 is its last use, but microbatch 0 is still needed by its W: both slots go back together.
  Middle rank(table(Placement::single(3), 2, {"0F0 0F1 0B0 0B1", "1F0 1F1 1I0 1B1 1W0", "2F0 2F1 2B0 2B1"}));
  rank.start();
  for (EdgeId edge : {activation_in, gradient_in}) {
    for (int m = 0; m < 2; ++m) rank.engine.boundary_arrived(edge, m);
  }
  for (const char* action : {"1F0", "1F1", "1I0"}) rank.engine.entry_finished(parse_action(action));
  EXPECT_TRUE(rank.engine.entry_finished(parse_action("1B1")).releases.empty());
  const Decisions last = rank.engine.entry_finished(parse_action("1W0"));
  ASSERT_EQ(last.releases.size(), 4u);
  EXPECT_EQ(last.releases[0].sequence, 0);
  EXPECT_EQ(last.releases[1].sequence, 1);
  EXPECT_EQ(last.releases[1].edge, activation_in);
}

TEST(RankEngine, SequencesGoOnOverSteps) {
  Middle rank(zb_h1(3, 1), {2, 2, 2, 2});
  for (int round = 0; round < 3; ++round) {
    rank.start();
    const Issue forward = rank.engine.boundary_arrived(activation_in, round).issues.at(0);
    EXPECT_EQ(forward.activation.sequence, round);
    EXPECT_EQ(forward.output.slot, round % 2);
    rank.engine.entry_finished(parse_action("1F0"));
    rank.engine.boundary_arrived(gradient_in, round);
    rank.engine.entry_finished(parse_action("1I0"));
    EXPECT_TRUE(rank.engine.entry_finished(parse_action("1W0")).finished);
    rank.engine.credit_returned(gradient_out, round);  // credits may arrive late and, across edges, in any order
    rank.engine.credit_returned(activation_out, round);
  }
}

TEST(RankEngine, TokensMayComeBeforeTheirStep) {
  Middle rank(gpipe(3, 1));
  EXPECT_EQ(issued(rank.engine.boundary_arrived(activation_in, 0)), "");
  rank.engine.start(rank.plan, step);
  EXPECT_EQ(issued(rank.engine.batch_ready(MicrobatchId{0})), "1F0");
}

TEST(RankEngine, ImpossibleEventsAreNamed) {
  const auto expect_error = [](const char* message, auto&& event) {
    Middle rank(gpipe(3, 2));
    rank.start();
    expect_contains(error_of(ExitCode::internal, [&] { event(rank); }), message);
  };
  expect_error("boundary 1 arrived on the activation edge from stage 0 to 1, expected boundary 0",
               [](Middle& r) { r.engine.boundary_arrived(activation_in, 1); });
  expect_error("boundary 0 arrived on the activation edge from stage 1 to 2, which goes from rank 1 to rank 2",
               [](Middle& r) { r.engine.boundary_arrived(activation_out, 0); });
  expect_error("boundary 0 arrived on unknown edge 9 of 4", [](Middle& r) { r.engine.boundary_arrived(EdgeId{9}, 0); });
  expect_error("credit 0 arrived on unknown edge -1 of 4", [](Middle& r) { r.engine.credit_returned(no_edge, 0); });
  expect_error("boundary 2 arrived on the activation edge from stage 0 to 1, whose 2 slots are all taken (boundaries 0 to 1)",
               [](Middle& r) {
                 for (int m = 0; m < 3; ++m) r.engine.boundary_arrived(activation_in, m);
               });
  expect_error("the slot of boundary 0 was freed on the activation edge from stage 1 to 2, but it holds boundary -1",
               [](Middle& r) { r.engine.credit_returned(activation_out, 0); });
  expect_error("the slot of boundary -3 was freed", [](Middle& r) { r.engine.credit_returned(activation_out, -3); });
  expect_error("the batch of microbatch 2 arrived in step 7, expected 0 to 1", [](Middle& r) { r.engine.batch_ready(MicrobatchId{2}); });
  expect_error("the batch of microbatch 0 of step 7 arrived twice", [](Middle& r) { r.engine.batch_ready(MicrobatchId{0}); });
  expect_error("1F0 finished, but nothing was issued", [](Middle& r) { r.engine.entry_finished(parse_action("1F0")); });
  expect_error("segment 0 of 1B0 finished, but the oldest issued entry is segment 0 of 1F0", [](Middle& r) {
    r.engine.boundary_arrived(activation_in, 0);
    r.engine.entry_finished(parse_action("1B0"));
  });
  expect_error("step 7 starts while 0 of 4 entries of step 7 are done", [](Middle& r) { r.engine.start(r.plan, step); });
  Middle idle(gpipe(3, 2));
  expect_contains(error_of(ExitCode::internal, [&] { idle.engine.batch_ready(MicrobatchId{0}); }), "arrived while no list runs");
  expect_contains(
      error_of(ExitCode::internal, [&] { idle.engine.start(make_rank_plan(gpipe(3, 2), RankId{2}, idle.ledger.stages), step); }),
      "rank 1 was given the list of rank 2");
}

}  // namespace
}  // namespace millrace::runtime
