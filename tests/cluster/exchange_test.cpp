// Exchanges whose members are all in this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cluster/exchange/exchange.hpp"
#include "tests/cluster/exchange_runs.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::cluster {
namespace {

using tests::expect_error;

ExchangeGroup first_ranks(int members, int id = 0) {
  ExchangeGroup group{id, "expert", std::vector<int>(static_cast<std::size_t>(members))};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

auto up_to(std::int64_t most) {
  return
      [most](const ExchangeGroup& group, std::int64_t sequence, int from, int to) { return random_bytes(group, sequence, from, to, most); };
}

TEST(Exchange, MovesRandomTablesAmongOneToFourMembers) {
  for (int members = 1; members <= 4; ++members)
    run_exchanges(Topology(members, 1, 0), nullptr, {.groups = {first_ranks(members)}, .exchanges = 500, .bytes = up_to(3000)});
}

TEST(Exchange, MembersMayHaveOneOrManyUnderWay) {
  for (const int outstanding : {1, 2, 5, Exchanges::max_outstanding})
    run_exchanges(Topology(3, 1, 0), nullptr,
                  {.groups = {first_ranks(3)}, .exchanges = 300, .bytes = up_to(200), .outstanding = outstanding});
}

TEST(Exchange, LongPartsAreCopiedByTheLaterMember) {
  run_exchanges(Topology(4, 1, 0), nullptr, {.groups = {first_ranks(4)}, .exchanges = 20, .bytes = up_to(200'000)});
}

TEST(Exchange, EmptyTablesEndToo) {
  run_exchanges(Topology(3, 1, 0), nullptr,
                {.groups = {first_ranks(3)}, .exchanges = 100, .bytes = [](const ExchangeGroup&, std::int64_t, int, int) { return 0; }});
}

TEST(Exchange, GroupsDoNotMix) {
  run_exchanges(Topology(4, 1, 0), nullptr,
                {.groups = {first_ranks(4, 7), {2, "context", {3, 1}}, {5, "context", {0, 2}}, {11, "alone", {2}}},
                 .exchanges = 300,
                 .bytes = up_to(1000)});
}

TEST(Exchange, AllocatesNothingOnceItRuns) {
  run_exchanges(Topology(3, 1, 0), nullptr,
                {.groups = {first_ranks(3)}, .exchanges = 400, .bytes = up_to(1000), .allocation_free_from = 200});
}

/// Two or three members that one thread drives.
class Driven {
 public:
  explicit Driven(int members) {
    std::vector<Exchanges::Member> all;
    for (int rank = 0; rank < members; ++rank) all.push_back({rank, events_.emplace_back(std::make_unique<Ends>()).get()});
    const std::vector<ExchangeGroup> groups{{3, "expert", first_ranks(members).ranks}};
    exchanges_ = std::make_unique<Exchanges>(Topology(members, 1, 0), nullptr, groups, all);
    memory_.resize(static_cast<std::size_t>(members));
  }

  Exchange& member(int rank) { return exchanges_->exchange(3, rank); }
  std::vector<std::int64_t>& ended(int rank) { return events_[static_cast<std::size_t>(rank)]->sequences; }
  std::byte* from(int rank) { return memory_[static_cast<std::size_t>(rank)].data(); }
  std::byte* into(int rank) { return from(rank) + 500; }

  /// Every member sends `bytes` to each, and expects as much.
  void post(int rank, std::int64_t sequence, std::int64_t bytes) {
    const std::size_t members = events_.size();
    std::vector<std::int64_t> at(members), sizes(members, bytes);
    for (std::size_t peer = 0; peer < members; ++peer) at[peer] = static_cast<std::int64_t>(peer) * bytes;
    member(rank).post(sequence, from(rank), into(rank), {at, sizes, at, sizes});
  }

 private:
  struct Ends final : ExchangeEvents {
    void on_exchanged(int group, std::int64_t sequence) override {
      EXPECT_EQ(group, 3);
      sequences.push_back(sequence);
    }
    std::vector<std::int64_t> sequences;
  };
  std::vector<std::unique_ptr<Ends>> events_;
  std::vector<std::array<std::byte, 1000>> memory_;
  std::unique_ptr<Exchanges> exchanges_;
};

using Places = std::vector<int>;
using Sequences = std::vector<std::int64_t>;

TEST(Exchange, TellsWhomItWaitsFor) {
  Driven group(3);
  EXPECT_EQ(group.member(0).missing(0), (Places{0, 1, 2}));
  group.post(0, 0, 8);
  EXPECT_EQ(group.member(0).missing(0), (Places{1, 2}));
  EXPECT_EQ(group.member(1).missing(0), (Places{1, 2})) << "it has not posted it itself";
  EXPECT_EQ(group.member(1).missing(1), (Places{0, 1, 2}));
  group.post(2, 0, 8);
  EXPECT_EQ(group.member(0).missing(0), (Places{1}));
  EXPECT_EQ(group.member(2).missing(0), (Places{1}));
  EXPECT_TRUE(group.ended(0).empty());
  group.post(1, 0, 8);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group.ended(rank), (Sequences{0}));
    EXPECT_TRUE(group.member(rank).missing(0).empty());
    EXPECT_TRUE(group.member(rank).missing(-1).empty());
  }
}

TEST(Exchange, APartForItselfIsThereWhenPostReturns) {
  Driven group(2);
  group.from(1)[8] = std::byte{42};
  group.post(1, 0, 8);
  EXPECT_EQ(group.into(1)[8], std::byte{42});
  EXPECT_TRUE(group.ended(1).empty());
  group.post(0, 0, 8);
}

TEST(Exchange, RefusesASequenceOutOfOrderAndMoreThanMayBeUnderWay) {
  Driven group(2);
  expect_error([&] { group.post(1, 1, 8); }, ExitCode::internal,
               {"group 3 (expert), exchange 1: member 1 (rank 1) posts it, expected exchange 0"});
  constexpr std::int64_t most = Exchanges::max_outstanding;
  for (std::int64_t sequence = 0; sequence < most; ++sequence) group.post(1, sequence, 8);
  expect_error([&] { group.post(1, 0, 8); }, ExitCode::internal,
               {fmt::format("exchange 0: member 1 (rank 1) posts it, expected exchange {}", most)});
  expect_error([&] { group.post(1, most, 8); }, ExitCode::internal,
               {fmt::format("exchange {}: member 1 (rank 1) posts it while its exchange 0 is under way", most)});
  group.post(0, 0, 8);
  group.post(1, most, 8);
  for (std::int64_t sequence = 1; sequence <= most; ++sequence) group.post(0, sequence, 8);
  Sequences all;
  for (std::int64_t sequence = 0; sequence <= most; ++sequence) all.push_back(sequence);
  EXPECT_EQ(group.ended(1), all);
}

TEST(Exchange, RefusesSizesOnWhichTwoMembersDoNotAgree) {
  Driven group(2);
  const std::array<std::int64_t, 2> at{0, 100}, sends{10, 20}, receives{10, 30};
  group.member(0).post(0, group.from(0), group.into(0), {at, sends, at, receives});
  const auto post = [&](std::int64_t sent, std::int64_t received) {
    const std::array<std::int64_t, 2> out{sent, 5}, in{received, 5};
    group.member(1).post(0, group.from(1), group.into(1), {at, out, at, in});
  };
  expect_error([&] { post(30, 21); }, ExitCode::internal,
               {"group 3 (expert), exchange 0: member 0 (rank 0) sends 20 bytes to member 1 (rank 1), which expects 21"});
  expect_error([&] { post(29, 20); }, ExitCode::internal, {"member 1 (rank 1) sends 29 bytes to member 0 (rank 0), which expects 30"});
  EXPECT_TRUE(group.ended(0).empty());
  post(30, 20);  // a refused post has no effect
  EXPECT_EQ(group.ended(0), (Sequences{0}));
  EXPECT_EQ(group.ended(1), (Sequences{0}));
}

TEST(Exchange, RefusesTablesThatAreNotRight) {
  Driven group(2);
  std::byte* const from = group.from(0);
  std::byte* const into = group.into(0);
  using Column = std::vector<std::int64_t>;
  const auto refuse = [&](const Column& send_at, const Column& send_bytes, const Column& receive_at, const Column& receive_bytes,
                          std::byte* to, const std::string& part) {
    expect_error(
        [&] {
          group.member(0).post(0, from, to, {send_at, send_bytes, receive_at, receive_bytes});
        },
        ExitCode::internal, {"group 3 (expert), exchange 0: member 0 (rank 0)", part});
  };
  refuse({0, 8, 9}, {8, 8}, {0, 8}, {8, 8}, into, "posts a table of 3 members, expected 2");
  refuse({0, 8}, {8, 8}, {0, 8}, {8}, into, "posts a table of 1 members, expected 2");
  refuse({0, 8}, {8, -1}, {0, 8}, {8, 8}, into, "sends member 1 (rank 1) -1 bytes at 8, expected sizes and offsets of at least 0");
  refuse({0, 8}, {8, 8}, {0, -8}, {8, 8}, into, "receives from member 1 (rank 1) 8 bytes at -8");
  refuse({0, 8}, {8, 8}, {0, 8}, {7, 8}, into, "sends 8 bytes to itself and expects 7");
  refuse({0, 8}, {8, 8}, {0, 5}, {8, 8}, into,
         "what it receives from member 1 (rank 1) overlaps what it receives from member 0 (rank 0) by 3 bytes");
  refuse({0, 8}, {8, 8}, {5, 0}, {8, 8}, into,
         "what it receives from member 0 (rank 0) overlaps what it receives from member 1 (rank 1) by 3 bytes");
  refuse({0, 8}, {8, 8}, {20, 0}, {8, 8}, from + 15,
         "what it receives from member 1 (rank 1) overlaps what it sends member 1 (rank 1) by 1 bytes");
  refuse({30, 8}, {8, 8}, {0, 11}, {8, 20}, from + 16,
         "what it sends member 0 (rank 0) overlaps what it receives from member 1 (rank 1) by 8 bytes");
  // Parts that are sent may lie in each other, and the longer one still overlaps what is received.
  Driven three(3);
  expect_error(
      [&] {
        const Column out{40, 10, 0}, sizes{8, 10, 100}, in{8, 60, 200}, expected{8, 0, 0};
        three.member(0).post(0, three.from(0), three.from(0) + 50, {out, sizes, in, expected});
      },
      ExitCode::internal, {"what it receives from member 0 (rank 0) overlaps what it sends member 2 (rank 2) by 8 bytes"});
  // Empty parts may be anywhere.
  const Column same{0, 0}, eight{8, 8}, at{0, 8};
  group.member(0).post(0, from, into, {same, eight, at, eight});
  const Column nothing{0, 0};
  group.member(0).post(1, from, from, {same, nothing, same, nothing});
  group.post(1, 0, 8);
  group.post(1, 1, 0);
  EXPECT_EQ(group.ended(0), (Sequences{0, 1}));
}

TEST(Exchanges, RefuseGroupsAndMembersThatDoNotFit) {
  struct Silent final : ExchangeEvents {
    void on_exchanged(int, std::int64_t) override {}
  } events;
  const std::vector<Exchanges::Member> members{{0, &events}, {1, &events}};
  const auto refuse = [&](const std::vector<ExchangeGroup>& groups, const std::string& part) {
    expect_error([&] { Exchanges(Topology(3, 1, 0), nullptr, groups, members); }, ExitCode::internal, {part});
  };
  refuse({{1, "expert", {0}}, {1, "context", {1}}}, "group 1 (context): the id is used twice");
  refuse({{1, "expert", {}}}, "group 1 (expert) has no members");
  refuse({{1, "expert", {0, 3}}}, "group 1 (expert): rank 3, expected ranks from 0 to 2");
  refuse({{1, "expert", {0, 1, 0}}}, "group 1 (expert): rank 0 is a member twice");
  refuse({{1, "expert", {0, 2}}}, "group 1 (expert): rank 2 is in this process and has no ExchangeEvents");
  expect_error(
      [&] {
        Exchanges(Topology(4, 2, 0), nullptr, std::vector<ExchangeGroup>{{1, "expert", {0, 2}}}, members);
      },
      ExitCode::internal, {"group 1 (expert) leaves this process, and there is no transport"});
  const Exchanges exchanges(Topology(3, 1, 0), nullptr, std::vector<ExchangeGroup>{{1, "expert", {1}}}, members);
  expect_error([&] { (void)exchanges.exchange(1, 0); }, ExitCode::internal, {"rank 0 has no member of group 1 in this process"});
  expect_error([&] { (void)exchanges.exchange(2, 1); }, ExitCode::internal, {"rank 1 has no member of group 2 in this process"});
}

}  // namespace
}  // namespace millrace::cluster
