#include "runtime/engine/rank_plan.hpp"

#include "runtime/schedule/weave_pairs.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(RankPlan, ResolvesTokensAndSlots) {
  const Schedule schedule = zb_h1(3, 4);
  const Ledger ledger = make_ledger(schedule);
  const RankPlan plan = make_rank_plan(schedule, RankId{1}, ledger.stages);
  ASSERT_EQ(plan.entries.size(), 12u);
  for (const PlannedEntry& planned : plan.entries) {
    const ActionKind kind = planned.action.kind;
    const int m = planned.action.microbatch.value;
    EXPECT_EQ(planned.activation.edge, EdgeId{0});
    EXPECT_EQ(planned.activation.ordinal, m);
    EXPECT_EQ(planned.gradient.present(), kind != ActionKind::forward);
    EXPECT_EQ(planned.output.edge, kind == ActionKind::forward ? EdgeId{1} : kind == ActionKind::input_gradient ? EdgeId{2} : no_edge);
    EXPECT_EQ(planned.last_use, kind == ActionKind::weight_gradient);
    EXPECT_EQ(planned.stash_input, kind == ActionKind::weight_gradient ? -1 : m % ledger.stages[1].stash_input);
    EXPECT_EQ(planned.stash_weight, m % ledger.stages[1].stash_weight);
    EXPECT_EQ(planned.handoff, kind == ActionKind::forward ? -1 : m % ledger.stages[1].handoff);
  }
}

/// Segments as a mixture of experts has them.
std::vector<StageShape> exchanging(const Schedule& schedule) {
  StageShape shape;
  shape.of(ActionKind::forward) = {{-1, 1}, {0, 1}, {1, 1}, {2, 0}};
  shape.of(ActionKind::input_gradient) = {{-1, 1}, {0, 1}, {1, 0}};
  shape.of(ActionKind::backward) = {{-1, 1}, {0, 1}, {1, 0}};
  return std::vector(static_cast<std::size_t>(schedule.placement.stages()), shape);
}

TEST(RankPlan, SlotsAreNeverTakenTwice) {
  // Every slot of every kind is free again before another microbatch uses it.
  std::vector<Schedule> schedules{table(Placement::single(1), 4, {"0F0 0F1 0I0 0B1 0F2 0W0 0I2 0F3 0I3 0W2 0W3"})};
  for (const ScheduleRequest& request : every_request({1, 2, 4}, 2)) schedules.push_back(make_schedule(request));
  const std::size_t unwoven = schedules.size();
  for (std::size_t i = 1; i < unwoven; ++i) schedules.push_back(with_woven_neighbours(schedules[i], exchanging(schedules[i])));
  for (const Schedule& schedule : schedules) {
    const Ledger ledger = make_ledger(schedule);
    for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
      std::vector<std::vector<std::vector<int>>> held(3);  // by kind of stash, stage, slot: microbatch or -1
      for (const StashSlots& slots : ledger.stages) {
        held[0].emplace_back(static_cast<std::size_t>(slots.stash_input), -1);
        held[1].emplace_back(static_cast<std::size_t>(slots.stash_weight), -1);
        held[2].emplace_back(static_cast<std::size_t>(slots.handoff), -1);
      }
      for (const PlannedEntry& planned : make_rank_plan(schedule, RankId{rank}, ledger.stages, exchanging(schedule)).entries) {
        const int m = planned.action.microbatch.value;
        const ActionKind kind = planned.action.kind;
        const auto visit = [&](std::size_t stash, int slot, bool first, bool last) {
          if (slot < 0) return;
          int& owner = held[stash][planned.action.stage.index()].at(static_cast<std::size_t>(slot));
          ASSERT_EQ(owner, first ? -1 : m) << schedule.name << " " << to_string(planned.action);
          owner = last ? -1 : m;
        };
        const bool begins = planned.begins_action(), ends = planned.ends_action();
        visit(0, planned.stash_input, begins && kind == ActionKind::forward, ends && makes_gradient(kind));
        visit(1, planned.stash_weight, begins && kind == ActionKind::forward, ends && ends_microbatch(kind));
        visit(2, planned.handoff, begins && kind == ActionKind::input_gradient, ends && kind == ActionKind::weight_gradient);
      }
    }
  }
}

TEST(RankPlan, CountsExchangesOverTheList) {
  const Schedule schedule = one_f_one_b(2, 2);
  const Ledger ledger = make_ledger(schedule);
  std::vector<StageShape> shapes(2);
  shapes[1].of(ActionKind::forward) = {{-1, 2}, {1, 0}, {0, 0}};
  shapes[1].of(ActionKind::backward) = {{-1, 1}, {0, 0}};
  const RankPlan plan = make_rank_plan(schedule, RankId{1}, ledger.stages, shapes);
  std::string text;
  for (const PlannedEntry& entry : plan.entries)
    text += fmt::format("{}.{}/{} awaits {} posts {}+{}, ", entry.action, entry.segment, entry.segments, entry.awaits, entry.first_exchange,
                        entry.posts);
  EXPECT_EQ(text,
            "1F0.0/3 awaits -1 posts 0+2, 1F0.1/3 awaits 1 posts 2+0, 1F0.2/3 awaits 0 posts 2+0, "
            "1B0.0/2 awaits -1 posts 2+1, 1B0.1/2 awaits 2 posts 3+0, "
            "1F1.0/3 awaits -1 posts 3+2, 1F1.1/3 awaits 4 posts 5+0, 1F1.2/3 awaits 3 posts 5+0, "
            "1B1.0/2 awaits -1 posts 5+1, 1B1.1/2 awaits 5 posts 6+0, ");
  text.clear();
  for (const PlannedExchange& exchange : plan.exchanges) text += fmt::format("{} {}, ", exchange.action, exchange.number);
  EXPECT_EQ(text, "1F0 0, 1F0 1, 1B0 0, 1F1 0, 1F1 1, 1B1 0, ");
  EXPECT_EQ(make_rank_plan(schedule, RankId{0}, ledger.stages, shapes).exchanges.size(), 0U);
}

TEST(RankPlan, WeavesThePairsThatExchange) {
  Schedule schedule = one_f_one_b(1, 3);
  schedule.ranks[0] = {parse_action("0F0"), parse_action("0F1"), parse_action("0B0"),
                       parse_action("0F2"), parse_action("0B1"), parse_action("0B2")};
  for (const std::size_t first : {1U, 3U}) schedule.ranks[0][first].overlaps_next = true;  // (0F1;0B0), (0F2;0B1)
  std::vector<StageShape> shapes(1);
  const std::vector<StashSlots> slots{{3, 3, 0}};
  const auto text = [&] {
    std::string all;
    for (const PlannedEntry& entry : make_rank_plan(schedule, RankId{0}, slots, shapes).entries)
      all += fmt::format("{}.{}{}{} ", entry.action, entry.segment, entry.strand == 1 ? "'" : "",
                         entry.awaits < 0 ? "" : fmt::format("<{}", entry.awaits));
    return all;
  };
  EXPECT_EQ(text(), "0F0.0 0F1.0 0B0.0 0F2.0 0B1.0 0B2.0 ");
  shapes[0].of(ActionKind::forward) = {{-1, 1}, {0, 0}};
  shapes[0].of(ActionKind::backward) = {{-1, 1}, {0, 1}, {1, 0}};
  EXPECT_EQ(text(), "0F0.0 0F0.1<0 0B0.0' 0F1.0 0B0.1'<1 0F1.1<2 0B0.2'<3 0B1.0' 0F2.0 0B1.1'<4 0F2.1<5 0B1.2'<6 0B2.0 0B2.1<7 0B2.2<8 ");
}

TEST(RankPlan, RefusesToAwaitWhatIsNotPosted) {
  const Schedule schedule = one_f_one_b(1, 1);
  std::vector<StageShape> shapes(1);
  shapes[0].of(ActionKind::forward) = {{-1, 1}, {1, 1}};
  EXPECT_THROW((void)make_rank_plan(schedule, RankId{0}, make_ledger(schedule).stages, shapes), Error);
}

TEST(RankPlan, ForwardOnlyGoesThroughTheSameStashes) {
  const Ledger ledger = make_ledger(one_f_one_b(2, 4));
  const RankPlan plan = make_rank_plan(forward_only(Placement::single(2), 5), RankId{0}, ledger.stages);
  EXPECT_TRUE(plan.forward_only);
  EXPECT_EQ(plan.entries[3].stash_input, 1);
  EXPECT_TRUE(plan.entries[3].last_use);
}

}  // namespace
}  // namespace millrace::runtime
