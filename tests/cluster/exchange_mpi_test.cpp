// Exchanges whose members are in several processes. Runs under mpirun with two or four.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/exchange/exchange.hpp"
#include "cluster/exchange/remote_parts.hpp"
#include "cluster/links/mpi_world.hpp"
#include "cluster/links/transport.hpp"
#include "tests/cluster/exchange_runs.hpp"
#include "tests/cluster/transport_main.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::cluster {
namespace {

using tests::expect_error;

std::unique_ptr<Transport> transport;

Topology ranks_per_process(int ranks) { return {ranks * transport->processes(), transport->processes(), transport->process()}; }

ExchangeGroup group_of_all(const Topology& topology, int id = 0) {
  ExchangeGroup group{id, "expert", std::vector<int>(static_cast<std::size_t>(topology.ranks()))};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

auto up_to(std::int64_t most) {
  return
      [most](const ExchangeGroup& group, std::int64_t sequence, int from, int to) { return random_bytes(group, sequence, from, to, most); };
}

TEST(ExchangeOverMpi, MovesRandomTablesOfOneMemberPerProcess) {
  const Topology topology = ranks_per_process(1);
  run_exchanges(topology, transport.get(), {.groups = {group_of_all(topology)}, .exchanges = 400, .bytes = up_to(3000)});
}

TEST(ExchangeOverMpi, MembersOfOneProcessAndOfOthersMayBeInOneGroup) {
  const Topology topology = ranks_per_process(2);
  run_exchanges(topology, transport.get(), {.groups = {group_of_all(topology)}, .exchanges = 300, .bytes = up_to(3000)});
}

TEST(ExchangeOverMpi, AGroupMayHaveMostMembersInOneProcess) {
  const Topology topology = ranks_per_process(2);
  run_exchanges(topology, transport.get(), {.groups = {{4, "expert", {2, 0, 1}}}, .exchanges = 200, .bytes = up_to(500)});
}

TEST(ExchangeOverMpi, GroupsDoNotMix) {
  const Topology topology = ranks_per_process(2);
  ExchangeGroup even{9, "context", {}}, reversed = group_of_all(topology, 2);
  for (int rank = 0; rank < topology.ranks(); rank += 2) even.ranks.push_back(rank);
  std::reverse(reversed.ranks.begin(), reversed.ranks.end());
  run_exchanges(topology, transport.get(),
                {.groups = {group_of_all(topology, 5), even, reversed, {1, "pair", {0, 1}}, {3, "pair", {1, 2}}},
                 .exchanges = 150,
                 .bytes = up_to(1000)});
}

TEST(ExchangeOverMpi, MembersMayHaveOneOrManyUnderWay) {
  const Topology topology = ranks_per_process(1);
  for (const int outstanding : {1, 3})
    run_exchanges(topology, transport.get(),
                  {.groups = {group_of_all(topology)}, .exchanges = 100, .bytes = up_to(6000), .outstanding = outstanding});
}

// Longer than MPI sends at once, and longer than what is announced.
TEST(ExchangeOverMpi, MovesLongParts) {
  const Topology topology = ranks_per_process(1);
  run_exchanges(topology, transport.get(), {.groups = {group_of_all(topology)}, .exchanges = 20, .bytes = up_to(300'000)});
}

TEST(ExchangeOverMpi, PartsLongerThanAPieceAreSentInPieces) {
  const Topology topology = ranks_per_process(2);
  for (const std::size_t piece_bytes : {7U, 64U})
    run_exchanges(topology, transport.get(),
                  {.groups = {group_of_all(topology)}, .exchanges = 30, .bytes = up_to(1000), .piece_bytes = piece_bytes});
  run_exchanges(ranks_per_process(1), transport.get(),
                {.groups = {group_of_all(ranks_per_process(1))}, .exchanges = 10, .bytes = up_to(300'000), .piece_bytes = 50'000});
}

TEST(ExchangeOverMpi, AllocatesNothingOnceItRuns) {
  const Topology topology = ranks_per_process(2);
  run_exchanges(topology, transport.get(),
                {.groups = {group_of_all(topology)}, .exchanges = 400, .bytes = up_to(6000), .allocation_free_from = 200});
}

// Members between which all parts are empty do not wait for each other: one may be many exchanges ahead.
TEST(ExchangeOverMpi, EmptyPartsAreNotWaitedFor) {
  const Topology topology = ranks_per_process(1);
  run_exchanges(
      topology, transport.get(),
      {.groups = {group_of_all(topology)}, .exchanges = 300, .bytes = [](const ExchangeGroup&, std::int64_t sequence, int from, int to) {
         return sequence % 100 == 99 ? 10 + from : sequence % 3 == 0 && from == to ? 5 : 0;
       }});
}

// A sender sleeps when nobody takes what it has sent, and is rung by the one that takes it.
TEST(ExchangeOverMpi, AMemberMayPostMuchLaterThanWhatIsSentToIt) {
  const Topology topology = ranks_per_process(1);
  for (const std::int64_t bytes : {100, 1000, 40'000, 2'000'000}) {
    run_exchanges(topology, transport.get(),
                  {.groups = {group_of_all(topology)},
                   .exchanges = 5,
                   .bytes = [bytes](const ExchangeGroup&, std::int64_t, int from, int to) { return from == 0 && to > 0 ? bytes : 0; },
                   .outstanding = 1,
                   .before_post =
                       [](int place) {
                         if (place > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                       }});
  }
}

struct Silent final : ExchangeEvents {
  void on_exchanged(int, std::int64_t) override {}
};

// Ranks that are in groups of both uses have no common order of their exchanges: what comes is never taken for one of the other use.
TEST(ExchangeOverMpi, UsesDoNotMix) {
  const Topology topology = ranks_per_process(1);
  const std::vector<ExchangeGroup> groups{group_of_all(topology)};
  Silent events;
  const int own = topology.process();
  const std::vector<Exchanges::Member> members{{own, &events}};
  Exchanges rows(topology, transport.get(), groups, members, ExchangeUse::rows);
  Exchanges replicas(topology, transport.get(), groups, members, ExchangeUse::replicas);
  constexpr std::int64_t bytes = 100;
  const std::size_t all = groups[0].ranks.size();
  const std::vector<std::int64_t> here(all, 0), count(all, bytes);
  std::vector<std::int64_t> places(all);
  for (std::size_t member = 0; member < all; ++member) places[member] = static_cast<std::int64_t>(member) * bytes;
  for (std::int64_t sequence = 0; sequence < 8; ++sequence) {
    std::array<std::vector<std::byte>, 2> sent, came;  // by use
    const auto post = [&](std::size_t use) {
      sent[use].assign(bytes, static_cast<std::byte>(16 * use + sequence));
      came[use].assign(all * bytes, std::byte{255});
      (use == 0 ? rows : replicas).exchange(0, own).post(sequence, sent[use].data(), came[use].data(), {here, count, places, count});
    };
    const std::size_t first = own % 2 == 0 ? 0 : 1;  // every other process has the other order
    post(first);
    post(1 - first);
    for (const std::size_t use : {0, 1}) {
      while (!(use == 0 ? rows : replicas).exchange(0, own).missing(sequence).empty()) std::this_thread::yield();
      EXPECT_TRUE(std::ranges::all_of(came[use], [&](std::byte byte) { return byte == sent[use].front(); })) << "use " << use;
    }
  }
  rows.close();
  replicas.close();
}

// Nothing shows that in a poll, since nothing is received.
TEST(ExchangeOverMpi, ClosingFindsWhatNobodyExpected) {
  const Topology topology = ranks_per_process(1);
  const std::vector<ExchangeGroup> groups{group_of_all(topology, 6)};
  Silent events;
  const std::vector<Exchanges::Member> members{{topology.process(), &events}};
  Exchanges exchanges(topology, transport.get(), groups, members);
  Exchange& own = exchanges.exchange(6, topology.process());
  const std::vector<std::int64_t> none(groups[0].ranks.size(), 0);
  std::vector<std::int64_t> sends = none;
  if (topology.process() == 1) sends[0] = 40;
  const std::vector<std::byte> from(40);
  std::byte into{};
  own.post(0, nullptr, &into, {none, none, none, none});
  own.post(1, from.data(), &into, {none, sends, none, none});
  while (!own.missing(1).empty()) std::this_thread::yield();
  transport->barrier();
  if (topology.process() == 0) {
    expect_error(
        [&] { exchanges.close(); }, ExitCode::internal,
        {"group 6 (expert): member 1 (rank 1) sent 40 bytes to member 0 (rank 0), which expected none, in an exchange whose number "
         "modulo 64 is 1"});
    transport->run([&] {
      std::array<std::byte, 40> drained;
      MPI_Recv(drained.data(), 40, MPI_BYTE, 1, MPI_ANY_TAG, transport->world().exchanges.front(), MPI_STATUS_IGNORE);
    });
  } else {
    exchanges.close();
  }
}

/// Process 2p sends `sent` bytes to process 2p + 1, which expects `expected` and polls by hand, since an error in a poll ends a transport's
/// work.
void refuse_size(std::int64_t sent, std::int64_t expected, const std::string& found) {
  const Topology topology = ranks_per_process(1);
  std::vector<ExchangeGroup> groups;
  for (int rank = 0; rank < topology.ranks(); rank += 2) groups.push_back({rank / 2, "expert", {rank, rank + 1}});
  const int place = topology.process() % 2;
  LocalGroup group(groups[static_cast<std::size_t>(topology.process() / 2)]);
  const auto remote = RemoteParts::make(topology, *transport, groups, ExchangeUse::rows, Exchanges::default_piece_bytes);
  Silent events;
  GroupMember member(group, place, events, remote.get());
  remote->add(member);
  std::vector<std::byte> from(2'000'000), into(2'000'000);
  const std::vector<std::int64_t> at{0, 0}, out{0, place == 0 ? sent : 0}, in{place == 1 ? expected : 0, 0};
  member.post(0, from.data(), into.data(), {at, out, at, in});
  if (place == 0) {
    transport->attach(*remote);
  } else {
    const auto poll = [&] {
      for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < std::chrono::seconds(60);)
        transport->run([&] { remote->poll(); });
    };
    const int rank = topology.process();
    expect_error(poll, ExitCode::internal,
                 {fmt::format("group {} (expert), exchange 0: member 0 (rank {}) sent {} to member 1 (rank {}), which expected {}",
                              rank / 2, rank - 1, found, rank, expected)});
    EXPECT_EQ(member.missing(0), std::vector<int>{0});
  }
  transport->barrier();
  if (place == 0) transport->detach(*remote);
  transport->run([&] { remote->take_back(); });
  transport->barrier();
}

TEST(ExchangeOverMpi, ShortPartsOfAWrongSizeAreAnError) {
  refuse_size(100, 101, "100 bytes");
  refuse_size(101, 100, "101 bytes");
}

TEST(ExchangeOverMpi, LongPartsOfAWrongSizeAreAnError) {
  refuse_size(40'000, 50'000, "40000 bytes");
  refuse_size(50'000, 40'000, "50000 bytes");
}

// Without single copies a part of more than 4000 bytes is sent as its first 128 bytes, then the others. The last of these leaves a message
// that nobody takes, so it is the last test.
TEST(ExchangeOverMpi, AnnouncedPartsOfAWrongSizeAreAnError) {
  refuse_size(300'000, 300'001, "300000 bytes");
  refuse_size(1'500'000, 1'000'000, "1500000 bytes");
  refuse_size(2'000, 1'000'000, "2000 bytes");
  refuse_size(1'000'000, 2'000, transport->world().single_copy ? "1000000 bytes" : "128 bytes or more");
}

}  // namespace
}  // namespace millrace::cluster

int main(int argc, char** argv) { return millrace::cluster::run_with_transport(argc, argv, millrace::cluster::transport); }
