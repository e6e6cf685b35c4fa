#include "kernels/exchange_round.hpp"

#include <random>
#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

/// The tables of one member in one round.
struct Tables {
  std::vector<std::int64_t> send, receive, groups;
  std::int64_t rounds = 0;
};

Data counts_of(const std::vector<std::int32_t>& counts) {
  Data data(DType::i32, {static_cast<std::int64_t>(counts.size())});
  for (std::size_t i = 0; i < counts.size(); ++i) data.set(static_cast<std::int64_t>(i), counts[i]);
  return data;
}

Tables tables_of(const ExecutionContext& context, const std::vector<std::int32_t>& counts, const ExchangeRoundOptions& options) {
  const Data given = counts_of(counts);
  const std::int64_t members = options.group;
  Data send(DType::i32, {members, 2}, 9), receive(DType::i32, {members, 2}, 9), more(DType::i32, {1}, 9);
  Data groups(DType::i32, {static_cast<std::int64_t>(counts.size()) / members + 1}, 9);
  exchange_round(context, *given, *send, *receive, *groups, *more, options);
  const auto list = [](const Data& data) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < (*data).elements(); ++i) numbers.push_back(static_cast<std::int64_t>(data.at(i)));
    return numbers;
  };
  return {list(send), list(receive), list(groups), list(more).front() + 1};
}

TEST(ExchangeRound, CutsAnOwnersRowsIntoRunsThatFit) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(1);
  // Two members with two experts each. Member 0 has 200, 0, 10, 5 rows for the four, member 1 has 130, 3, 0, 128.
  const std::vector<std::int32_t> counts{200, 0, 10, 5, 130, 3, 0, 128};
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    const auto tables = [&](std::int64_t place, std::int64_t round) {
      return tables_of(context, counts, {.group = 2, .place = place, .room = 202, .round = round});
    };
    // Member 0 gets runs of 128, 72 | 128, 2, 3, member 1 runs of 10, 5, 128.
    const Tables first = tables(0, 0);
    EXPECT_EQ(first.rounds, 2);
    EXPECT_EQ(first.send, (std::vector<std::int64_t>{0, 200, 200, 215}));
    EXPECT_EQ(first.receive, (std::vector<std::int64_t>{0, 200, 0, 0}));
    EXPECT_EQ(first.groups, (std::vector<std::int64_t>{0, 200, 200, 200, 200}));
    const Tables second = tables(0, 1);
    EXPECT_EQ(second.send, (std::vector<std::int64_t>{0, 0, 0, 0}));
    EXPECT_EQ(second.receive, (std::vector<std::int64_t>{0, 0, 0, 133}));
    EXPECT_EQ(second.groups, (std::vector<std::int64_t>{0, 0, 0, 130, 133}));
    EXPECT_EQ(tables(1, 0).receive, (std::vector<std::int64_t>{0, 15, 15, 143}));
    EXPECT_EQ(tables(1, 1).send, (std::vector<std::int64_t>{0, 133, 0, 0}));
    const Tables third = tables(1, 2);
    EXPECT_EQ(third.rounds, 2);
    EXPECT_EQ(third.send, (std::vector<std::int64_t>(4, -1)));
    EXPECT_EQ(third.receive, (std::vector<std::int64_t>(4, -1)));
    EXPECT_EQ(third.groups, (std::vector<std::int64_t>(5, 0)));
  }
}

TEST(ExchangeRound, EveryRowGoesOnceToItsOwner) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(1);
  std::mt19937 random(5);
  const auto below = [&](std::int64_t end) { return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random); };
  std::int64_t most = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t members = 1 + below(4), own = 1 + below(3), experts = members * own, largest = 1 + below(400);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(members * experts));
    for (auto& count : counts) count = below(4) == 0 ? 0 : static_cast<std::int32_t>(below(largest + 1));
    const std::int64_t room = std::min(largest, exchange_run_rows) + below(300);
    const std::int64_t rounds = tables_of(fast(team), counts, {.group = members, .place = 0, .room = room}).rounds;
    most = std::max(most, rounds);
    EXPECT_LE(rounds, most_rounds(members * own * largest, largest, room));
    std::vector<std::vector<std::int64_t>> next(static_cast<std::size_t>(members),
                                                std::vector<std::int64_t>(static_cast<std::size_t>(members), 0));
    std::vector<std::int64_t> left(counts.begin(), counts.end());
    for (std::int64_t round = 0; round < rounds; ++round) {
      std::vector<Tables> all;
      for (std::int64_t place = 0; place < members; ++place)
        all.push_back(tables_of(fast(team), counts, {.group = members, .place = place, .room = room, .round = round}));
      for (std::int64_t owner = 0; owner < members; ++owner) {
        const Tables& to = all[static_cast<std::size_t>(owner)];
        EXPECT_LE(to.groups.back(), room);
        for (std::int64_t member = 0; member < members; ++member) {
          const Tables& from = all[static_cast<std::size_t>(member)];
          const auto range = [](const std::vector<std::int64_t>& table, std::int64_t at) {
            return std::pair(table[static_cast<std::size_t>(2 * at)], table[static_cast<std::size_t>(2 * at + 1)]);
          };
          const auto [first, end] = range(from.send, owner);
          const auto [begins, ends] = range(to.receive, member);
          ASSERT_EQ(end - first, ends - begins);
          for (std::int64_t expert = 0; expert < own; ++expert) {
            const auto group = static_cast<std::size_t>(member * own + expert);
            const std::int64_t rows = to.groups[group + 1] - to.groups[group];
            std::int64_t& rest = left[static_cast<std::size_t>(member * experts + owner * own + expert)];
            EXPECT_TRUE(rows % exchange_run_rows == 0 || rows == rest) << rows << " of " << rest;
            rest -= rows;
          }
          if (first == end) continue;
          EXPECT_EQ(to.groups[static_cast<std::size_t>(member * own)], begins);
          EXPECT_EQ(to.groups[static_cast<std::size_t>((member + 1) * own)], ends);
          // A member's rows leave in order, those for an owner after those for the one before.
          std::int64_t before = 0;
          for (std::int64_t expert = 0; expert < owner * own; ++expert)
            before += counts[static_cast<std::size_t>(member * experts + expert)];
          std::int64_t& sent = next[static_cast<std::size_t>(member)][static_cast<std::size_t>(owner)];
          EXPECT_EQ(first, before + sent);
          sent += end - first;
        }
      }
    }
    EXPECT_EQ(left, std::vector<std::int64_t>(left.size(), 0)) << "after " << rounds << " rounds";
  }
  EXPECT_GT(most, 8);
}

TEST(ExchangeRound, RefusesWhatDoesNotFit) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const int internal = static_cast<int>(ExitCode::internal);
  const auto call = [&](const std::vector<std::int32_t>& counts, const ExchangeRoundOptions& options) {
    return thrown([&] { (void)tables_of(context, counts, options); });
  };
  EXPECT_EQ(call({1, 2, 3, 4}, {.group = 2, .place = 1, .room = 4}), -1);
  EXPECT_EQ(call({1, 2, 3, 4}, {.group = 2, .place = 2, .room = 4}), internal);
  EXPECT_EQ(call({1, 2, 3}, {.group = 2, .room = 4}), internal);
  EXPECT_EQ(call({1, 2, 3, -4}, {.group = 2, .room = 4}), internal);
  EXPECT_EQ(call({1, 2, 3, 4}, {.group = 2, .room = 3}), internal);
  EXPECT_EQ(call({500, 2, 3, 4}, {.group = 2, .room = 127}), internal);
  EXPECT_EQ(call({500, 2, 3, 4}, {.group = 2, .room = 128}), -1);
}

}  // namespace
}  // namespace millrace::kernels::testing
