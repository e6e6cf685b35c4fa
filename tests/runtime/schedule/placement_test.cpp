#include "runtime/schedule/placement.hpp"

#include "runtime/schedule/edge.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::string ranks_of(const Placement& placement) {
  std::string text;
  for (int stage = 0; stage < placement.stages(); ++stage) text += fmt::format("{}", placement.rank_of(StageId{stage}));
  return text;
}

TEST(Placement, MapsStagesToRanks) {
  EXPECT_EQ(ranks_of(Placement::single(4)), "0123");
  EXPECT_EQ(ranks_of(Placement::loop(3, 2)), "012012");
  EXPECT_EQ(ranks_of(Placement::v_shape(4)), "01233210");
  EXPECT_EQ(ranks_of(Placement::by_hand(2, {RankId{0}, RankId{0}, RankId{1}})), "001");
}

TEST(Placement, ChunksAndNeighbours) {
  const Placement v = Placement::v_shape(3);
  EXPECT_EQ(v.chunks(), 2);
  EXPECT_EQ(v.stage_of(RankId{1}, 1), StageId{4});
  EXPECT_EQ(v.chunk_of(StageId{4}), 1);
  EXPECT_FALSE(v.previous(StageId{0}));
  EXPECT_FALSE(v.next(StageId{5}));
  EXPECT_EQ(*v.next(StageId{2}), StageId{3});
}

TEST(Placement, MirrorHasTwoChains) {
  const Placement mirror = Placement::mirror(4);
  EXPECT_EQ(ranks_of(mirror), "01233210");
  EXPECT_EQ(mirror.name(), "mirror");
  EXPECT_EQ(mirror.replicas(), 2);
  EXPECT_EQ(mirror.model_stages(), 4);
  EXPECT_EQ(mirror.replica_of(StageId{3}), 0);
  EXPECT_EQ(mirror.replica_of(StageId{4}), 1);
  EXPECT_EQ(mirror.model_stage(StageId{6}), 2);
  EXPECT_EQ(mirror.rank_of(StageId{6}), RankId{1});
  EXPECT_FALSE(mirror.next(StageId{3}));
  EXPECT_FALSE(mirror.previous(StageId{4}));
  EXPECT_EQ(*mirror.next(StageId{4}), StageId{5});
  EXPECT_FALSE(mirror.next(StageId{7}));
  EXPECT_EQ(Placement::v_shape(4).replicas(), 1);
  EXPECT_EQ(Placement::v_shape(4).model_stage(StageId{6}), 6);
}

TEST(Placement, RefusesWhatCannotBe) {
  expect_contains(error_of(ExitCode::config,
                           [] {
                             (void)Placement::by_hand(2, {RankId{0}, RankId{2}});
                           }),
                  "stage 1 is placed on rank 2, expected 0 to 1");
  expect_contains(error_of(ExitCode::config, [] { (void)Placement::by_hand(3, {RankId{0}, RankId{2}}); }), "rank 1 owns no stage");
  expect_contains(error_of(ExitCode::config, [] { (void)Placement::loop(0, 1); }), "pipeline.ranks = 0");
}

TEST(Edges, OneOfEachKindBetweenNeighbours) {
  const Placement v = Placement::v_shape(2);  // 0 1 | 1 0
  const auto edges = edges_of(v);
  ASSERT_EQ(edges.size(), 6u);
  int local = 0;
  for (const Edge& edge : edges) {
    local += edge.local();
    EXPECT_EQ(edge_into(v, edge.consumer, edge.kind), edge.id);
    const ActionKind maker = edge.kind == BoundaryKind::activation ? ActionKind::forward : ActionKind::backward;
    EXPECT_EQ(edge_out_of(v, {edge.producer, maker, MicrobatchId{0}}), edge.id);
  }
  EXPECT_EQ(local, 2);  // the bend, in both directions
  EXPECT_FALSE(edge_into(v, StageId{0}, BoundaryKind::activation));
  EXPECT_FALSE(edge_into(v, StageId{3}, BoundaryKind::gradient));
  EXPECT_FALSE(edge_out_of(v, {StageId{3}, ActionKind::forward, MicrobatchId{0}}));
  EXPECT_FALSE(edge_out_of(v, {StageId{0}, ActionKind::input_gradient, MicrobatchId{0}}));
  EXPECT_FALSE(edge_out_of(v, {StageId{1}, ActionKind::weight_gradient, MicrobatchId{0}}));
}

TEST(Edges, AMirrorHasTwoChainsAndNoBend) {
  const Placement mirror = Placement::mirror(3);
  const auto edges = edges_of(mirror);
  ASSERT_EQ(edges.size(), 8u);
  for (std::size_t index = 0; index < edges.size(); ++index) {
    const Edge& edge = edges[index];
    EXPECT_EQ(edge.id.index(), index);
    EXPECT_FALSE(edge.local());
    EXPECT_EQ(mirror.replica_of(edge.producer), mirror.replica_of(edge.consumer));
    EXPECT_EQ(edge_into(mirror, edge.consumer, edge.kind), edge.id);
    const ActionKind maker = edge.kind == BoundaryKind::activation ? ActionKind::forward : ActionKind::input_gradient;
    EXPECT_EQ(edge_out_of(mirror, {edge.producer, maker, MicrobatchId{0}}), edge.id);
  }
}

}  // namespace
}  // namespace millrace::runtime
