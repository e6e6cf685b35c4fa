#include "runtime/schedule/simulator/transfer_order.hpp"

#include <array>
#include <functional>
#include <random>
#include <sstream>

#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"
#include "tests/runtime/schedule/stepping_engine.hpp"

namespace millrace::runtime {
namespace {

constexpr std::array transports{TransferOrder::free, TransferOrder::edge_fifo, TransferOrder::direction_fifo, TransferOrder::rank_fifo,
                                TransferOrder::rendezvous};

std::vector<int> slots_everywhere(const Placement& placement, int slots) { return std::vector<int>(edges_of(placement).size(), slots); }

bool is_live(const Schedule& schedule, const TransferModel& model) {
  return replay_transfers(schedule.placement, full_table(schedule), model).live;
}

// The smallest number of slots on every edge with which the schedule completes.
int fewest_slots(const Schedule& schedule, TransferModel model) {
  for (int slots = 1;; ++slots) {
    model.slots = slots_everywhere(schedule.placement, slots);
    if (slots > schedule.microbatches || is_live(schedule, model)) return slots;
  }
}

std::string text_of(const std::vector<TransferCell>& cells) {
  std::string text;
  for (const TransferCell& cell : cells) text += (text.empty() ? "" : " ") + to_string(cell);
  return text;
}

TEST(FullTable, SendsFollowTheirActionsAndReceivesStandWhereTheListIs) {
  const FullTable cells = full_table(one_f_one_b(2, 3));
  EXPECT_EQ(text_of(cells[0]), "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2");
  EXPECT_EQ(text_of(cells[1]), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1RECV_F2 1B1 1SEND_B1 1F2 1B2 1SEND_B2");
}

TEST(FullTable, ADeadScheduleSaysWhy) {
  const Schedule dead = table(Placement::single(2), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  expect_contains(error_of(ExitCode::config, [&] { (void)full_table(dead); }), "cycle: rank 0 waits for rank 1");
}

TEST(TransferOrder, FewestSlotsWithReceivesInTheLists) {
  struct Row {
    const char* name;
    int chunks;
    std::function<int(int ranks, int microbatches)> slots;
  };
  const auto one = [](int, int) { return 1; };
  const auto two = [](int, int) { return 2; };
  const auto as_ranks = [](int ranks, int) { return ranks; };
  const auto as_microbatches = [](int, int microbatches) { return microbatches; };
  const Row rows[] = {{"gpipe", 1, one},
                      {"1f1b", 1, one},
                      {"zb-h1", 1, one},
                      {"v-half", 2, one},
                      {"v-min", 2, one},
                      {"zb-h2", 1, two},
                      {"zb-v", 2, two},
                      {"dualpipe", 1, two},
                      {"dualpipe-v", 2, two},
                      {"interleaved", 2, as_ranks},
                      {"interleaved-zb", 2, as_ranks},
                      {"looped-bfs", 2, as_microbatches}};
  for (const Row& row : rows) {
    for (const auto& [ranks, microbatches] : {std::pair{4, 16}, std::pair{8, 32}}) {
      const Schedule schedule = make_schedule({row.name, ranks, row.chunks, microbatches, {}});
      EXPECT_EQ(fewest_slots(schedule, {}), row.slots(ranks, microbatches)) << row.name << " P=" << ranks;
      TransferModel implicit;
      implicit.implicit_receives = true;
      EXPECT_EQ(fewest_slots(schedule, implicit), 1) << row.name << " P=" << ranks;
    }
  }
}

TEST(TransferOrder, EveryScheduleCompletesOnEveryTransport) {
  // The full table is an order in which everything can be done, so even a rendezvous completes; only slots can make it deadlock.
  int made = 0;
  for (int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const ScheduleRequest& request : one_of_each(ranks, 2 * ranks)) {
      if (request.name == "dualpipe" && ranks % 2 == 1) continue;
      const Schedule schedule = make_schedule(request);
      for (const TransferOrder order : transports) {
        for (const bool implicit : {false, true}) {
          EXPECT_TRUE(is_live(schedule, {order, implicit, {}, 0})) << name_of(request) << " " << to_string(order);
        }
      }
      ++made;
    }
  }
  EXPECT_GE(made, 70);
}

TEST(TransferOrder, SendsThatBlockTheirListKillSomeSchedules) {
  const auto live = [](const char* name, int ranks, int microbatches, int outbox) {
    const bool one_chunk = std::string(name).find("zb-h") == 0 || std::string(name) == "gpipe" || std::string(name) == "1f1b" ||
                           std::string(name) == "dualpipe";
    const Schedule schedule = make_schedule({name, ranks, one_chunk ? 1 : 2, microbatches, {}});
    TransferModel model;
    model.implicit_receives = true;
    model.slots = slots_everywhere(schedule.placement, 1);
    model.outbox = outbox;
    return is_live(schedule, model);
  };
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v", "interleaved"}) {
    for (const int outbox : {1, 2}) EXPECT_TRUE(live(name, 8, 32, outbox)) << name << " " << outbox;
  }
  EXPECT_FALSE(live("interleaved-zb", 5, 20, 1));
  EXPECT_FALSE(live("interleaved-zb", 8, 32, 1));
  EXPECT_FALSE(live("interleaved-zb", 8, 32, 2));
  EXPECT_FALSE(live("looped-bfs", 4, 16, 1));
  EXPECT_FALSE(live("looped-bfs", 4, 16, 2));
}

TEST(TransferOrder, ReportsNameTheTokenAndTheCycle) {
  // Breadth first, with one queue of blocking receives and too few slots: the edge from the last rank to the first fills up.
  TransferModel model;
  const Schedule schedule = looped_bfs(2, 2, 4);
  model.slots = slots_everywhere(schedule.placement, 1);
  const Liveness dead = replay_transfers(schedule.placement, full_table(schedule), model);
  ASSERT_FALSE(dead.live);
  expect_contains(dead.report, "finds none of the 1 slots on its edge free");
  EXPECT_FALSE(dead.cycle.empty());

  FullTable unsent = full_table(one_f_one_b(2, 1));
  std::erase_if(unsent[0], [](const TransferCell& cell) { return cell.kind == TransferCell::Kind::send; });
  const Liveness missing = replay_transfers(Placement::single(2), unsent, {});
  ASSERT_FALSE(missing.live);
  expect_contains(missing.report,
                  "rank 1 is stuck at 1RECV_F0 (cell 0 of 4): no activation of microbatch 0 from stage 0, which rank 0 has "
                  "produced but not sent; rank 0 is stuck at 0RECV_B0");
  EXPECT_EQ(missing.cycle, (std::vector<RankId>{RankId{0}, RankId{1}}));
}

/// The lists as a person would write them.
FullTable cells_of(const std::vector<std::string>& rows) {
  FullTable lists;
  for (const std::string& row : rows) {
    auto& list = lists.emplace_back();
    std::istringstream words(row);
    for (std::string word; words >> word;)
      for (const TransferCell& cell : parse_transfer_cell(word)) list.push_back(cell);
  }
  return lists;
}

struct Dead {
  std::vector<std::string> rows;
  TransferModel model;
  std::string report;
  std::vector<int> cycle;
};

void expect_reported(const Placement& placement, const Dead& dead) {
  const Liveness found = replay_transfers(placement, cells_of(dead.rows), dead.model);
  EXPECT_FALSE(found.live);
  EXPECT_EQ(found.report, dead.report);
  std::vector<int> cycle;
  for (const RankId rank : found.cycle) cycle.push_back(rank.value);
  EXPECT_EQ(cycle, dead.cycle) << dead.report;
}

// Each reason why a list stands still, between two ranks.
TEST(TransferOrder, ReportsSayWhatEachRankLacks) {
  const auto two = Placement::single(2);
  TransferModel rendezvous, implicit, queue;
  rendezvous.order = TransferOrder::rendezvous;
  implicit.implicit_receives = true;
  implicit.slots = slots_everywhere(two, 1);
  implicit.outbox = 1;
  queue.order = TransferOrder::direction_fifo;
  expect_reported(two,
                  {{"0SEND_F0 0F0", "1RECV_F0 1F0"},
                   {},
                   "rank 0 is stuck at 0SEND_F0 (cell 0 of 2): the activation of microbatch 0 from stage 0 is not produced before it\n"
                   "rank 1 is stuck at 1RECV_F0 (cell 0 of 2): no activation of microbatch 0 from stage 0, which rank 0 produces; rank 0 "
                   "is stuck at 0SEND_F0\n"
                   "cycle: rank 0 waits for itself\n",
                   {0}});
  expect_reported(two,
                  {{"0F0 0SEND_F0", "1F0 1RECV_F0"},
                   rendezvous,
                   "rank 0 is stuck at 0SEND_F0 (cell 1 of 2): rank 1 has not reached the receive; rank 1 is stuck at 1F0\n"
                   "rank 1 is stuck at 1F0 (cell 0 of 2): no activation of microbatch 0 from stage 0, which rank 0 has produced but not "
                   "sent; rank 0 is stuck at 0SEND_F0\n"
                   "cycle: rank 0 waits for rank 1, which waits for rank 0\n",
                   {0, 1}});
  expect_reported(two,
                  {{"0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0F3 0SEND_F3", "1F3"},
                   implicit,
                   "rank 0 is stuck at 0SEND_F2 (cell 5 of 8): the outbox of 1 on the activation edge from stage 0 to 1 is full; rank "
                   "1 is stuck at 1F3\n"
                   "rank 1 is stuck at 1F3 (cell 0 of 1): no activation of microbatch 3 from stage 0, which rank 0 produces; rank 0 is "
                   "stuck at 0SEND_F2\n"
                   "cycle: rank 0 waits for rank 1, which waits for rank 0\n",
                   {0, 1}});
  expect_reported(two, {{"0F0 0SEND_F0", "1RECV_F1 1F1"},
                        {},
                        "rank 1 is stuck at 1RECV_F1 (cell 0 of 2): no activation of microbatch 1 from stage 0, which no rank produces\n",
                        {}});
  expect_reported(
      two, {{"0F0 0SEND_F0", "1F0"},
            {},
            "rank 1 is stuck at 1F0 (cell 0 of 1): no activation of microbatch 0 from stage 0, which has arrived but is not received: "
            "another boundary is ahead of it, or there is no receive before this cell\n"
            "cycle: rank 1 waits for itself\n",
            {1}});
  expect_reported(two, {{"0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F1 1RECV_F0 1F0 1F1"},
                        queue,
                        "rank 1 is stuck at 1RECV_F1 (cell 0 of 4): no activation of microbatch 1 from stage 0, which is sent but waits in "
                        "a queue\n"
                        "cycle: rank 1 waits for itself\n",
                        {1}});
}

// A queue that both directions share: who must move first is found from head to head.
TEST(TransferOrder, ReportsFollowTheQueues) {
  const auto three = Placement::single(3);
  TransferModel shared;
  shared.order = TransferOrder::rank_fifo;
  shared.implicit_receives = true;
  expect_reported(three,
                  {{"0B0 0F0 0SEND_F0", "1RECV_F0 1RECV_B0 1B0 1SEND_B0", "2B0 2SEND_B0"},
                   shared,
                   "rank 0 is stuck at 0B0 (cell 0 of 3): no gradient of microbatch 0 from stage 1, which rank 1 produces; rank 1 is "
                   "stuck at 1B0\n"
                   "rank 1 is stuck at 1B0 (cell 2 of 4): no gradient of microbatch 0 from stage 2, which is sent but waits in a "
                   "queue; rank 0 is stuck at 0B0\n"
                   "cycle: rank 0 waits for rank 1, which waits for rank 0\n",
                   {0, 1}});
  expect_reported(three, {{"0F1 0SEND_F1 0F0 0SEND_F0", "1RECV_F0 1RECV_B0 1B0 1RECV_F1", "2B0 2SEND_B0"},
                          shared,
                          "rank 1 is stuck at 1B0 (cell 2 of 4): no gradient of microbatch 0 from stage 2, which is sent but waits in a "
                          "queue\n"
                          "cycle: rank 1 waits for itself\n",
                          {1}});
}

TEST(TransferOrder, CellsThatCannotBeAreErrors) {
  const auto check = [](FullTable cells) { (void)replay_transfers(Placement::single(2), cells, {}); };
  FullTable cells = full_table(one_f_one_b(2, 1));
  std::swap(cells[0], cells[1]);
  expect_contains(error_of(ExitCode::config, [&] { check(cells); }), "does not belong to this rank");
  cells = full_table(one_f_one_b(2, 1));
  cells[0].push_back({TransferCell::Kind::send, {}, BoundaryKind::gradient, StageId{0}, MicrobatchId{0}});
  expect_contains(error_of(ExitCode::config, [&] { check(cells); }), "cell 0SEND_B0: no gradient is transferred between two ranks here");
  cells = full_table(one_f_one_b(2, 1));
  cells[0].push_back(cells[0][1]);
  expect_contains(error_of(ExitCode::config, [&] { check(cells); }), "cell 0SEND_F0: a second such cell for the same boundary");
  cells = full_table(one_f_one_b(2, 1));
  cells[0].push_back(cells[0].back());  // the first stage's backward, which has an input and no output
  expect_contains(error_of(ExitCode::config, [&] { check(cells); }), "cell 0B0: a second such cell for the same boundary");
}

TEST(TransferOrder, TheSteppingEngineHangsExactlyOnWhatTheReplayCallsDead) {
  std::mt19937 random(23);
  const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
  std::array<std::array<int, 2>, transports.size()> outcomes{};
  for (int trial = 0; trial < 600; ++trial) {
    const auto requests = one_of_each(below(2) ? 2 : 4, 8);
    const Schedule schedule = make_schedule(requests[random() % requests.size()]);
    FullTable cells = full_table(schedule);
    for (int damage = below(5); damage > 0; --damage) {  // a user's table, which may be broken
      auto& list = cells[random() % cells.size()];
      const std::size_t at = random() % (list.size() - 1);
      if (below(12) == 0)
        list.erase(list.begin() + static_cast<long>(at));
      else if (!list[at].action.overlaps_next && !(at > 0 && list[at - 1].action.overlaps_next))
        std::swap(list[at], list[at + 1]);
    }
    TransferModel model;
    const auto which = static_cast<std::size_t>(below(transports.size()));
    model.order = transports[which];
    model.implicit_receives = below(2) == 0;
    if (below(3) > 0) model.slots = slots_everywhere(schedule.placement, 1 + below(8));
    model.outbox = below(2) * (1 + below(2));
    const Liveness liveness = replay_transfers(schedule.placement, cells, model);
    EXPECT_EQ(liveness.live, SteppingEngine(schedule.placement, cells, model, static_cast<unsigned>(trial)).completes())
        << schedule.name << " " << to_string(model.order) << "\n"
        << liveness.report;
    EXPECT_EQ(liveness.live, liveness.report.empty());
    ++outcomes[which][liveness.live];
  }
  for (std::size_t which = 0; which < transports.size(); ++which) {
    EXPECT_GT(outcomes[which][0], 15) << to_string(transports[which]);
    EXPECT_GT(outcomes[which][1], 15) << to_string(transports[which]);
  }
}

}  // namespace
}  // namespace millrace::runtime
