#include "kernels/capacity.hpp"

#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

/// Tokens of equal sequences with K different experts each, more often the first ones.
struct CapacityResults {
  CapacityResults(const ExecutionContext& context, std::int64_t tokens, std::int64_t chosen, const CapacityOptions& options)
      : weights(DType::f32, {tokens, chosen}, 1),
        gradient(DType::f32, {tokens, chosen}, 2),
        experts(DType::i32, {tokens, chosen}),
        kept_weights(DType::f32, {tokens, chosen}, 3),
        d_weights(DType::f32, {tokens, chosen}, 4),
        kept(DType::i32, {tokens, chosen}),
        dropped(DType::i32, {1}) {
    for (std::int64_t i = 0; i < experts.elements(); ++i) {
      const std::int64_t first = (i / chosen * 7 + i / chosen / 3) % options.experts;
      experts.set(i, static_cast<double>((first * first + i % chosen) % options.experts));
    }
    apply_capacity(context, *weights, *experts, options, *kept_weights, *kept, *dropped);
    apply_capacity_input_gradient(context, *gradient, *kept, *d_weights);
    wait();
  }
  Data weights, gradient, experts, kept_weights, d_weights, kept, dropped;
};

/// Counts what MaxText's one-hot sums count: the place of each choice among those of its expert, from 1, against the capacity.
void expect_definition(const CapacityResults& at, const CapacityOptions& options) {
  const std::int64_t of_sequence = at.experts.elements() / options.sequences;
  std::vector<std::int64_t> taken(static_cast<std::size_t>(options.experts));
  std::int64_t lost = 0;
  for (std::int64_t i = 0; i < at.experts.elements(); ++i) {
    if (i % of_sequence == 0) std::fill(taken.begin(), taken.end(), 0);
    const bool keeps = ++taken[static_cast<std::size_t>(at.experts.get(i))] <= options.capacity;
    EXPECT_EQ(at.kept.get(i), keeps ? 1 : 0) << i;
    EXPECT_EQ(at.kept_weights.get(i), keeps ? at.weights.get(i) : 0) << i;
    EXPECT_EQ(at.d_weights.get(i), keeps ? at.gradient.get(i) : 0) << i;
    lost += keeps ? 0 : 1;
  }
  EXPECT_EQ(at.dropped.get(0), static_cast<double>(lost));
}

TEST(Capacity, MatchesItsDefinitionForAnyThreadCount) {
  for (const std::int64_t sequences : {1, 3, 7})
    for (const std::int64_t length : {1, 5, 64})
      for (const std::int64_t experts : {1, 4, 19})
        for (const std::int64_t capacity : {0, 1, 3, 1000}) {
          const CapacityOptions options{experts, sequences, capacity};
          const std::int64_t tokens = sequences * length, chosen = std::min<std::int64_t>(experts, 2);
          SCOPED_TRACE(::testing::Message() << sequences << " x " << length << ", " << experts << " experts of " << capacity);
          ThreadTeam one(1);
          expect_definition(CapacityResults(ExecutionContext(one, Implementation::reference), tokens, chosen, options), options);
          for (const int threads : {1, 2, 3}) {
            ThreadTeam team(threads);
            expect_definition(CapacityResults(fast(team), tokens, chosen, options), options);
          }
        }
}

// Earlier tokens win, and of one token's choices the better one: (0, 1), (1, 3), (1, 0) with a place for one choice of each expert.
TEST(Capacity, EarlierTokensComeFirst) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data weights(DType::f32, {3, 2}, 1), experts(DType::i32, {3, 2}), kept_weights(DType::f32, {3, 2}), kept(DType::i32, {3, 2}),
        dropped(DType::i32, {1});
    const double chosen[] = {0, 1, 1, 3, 1, 0}, expected[] = {1, 1, 0, 1, 0, 0};
    for (std::int64_t i = 0; i < 6; ++i) experts.set(i, chosen[i]);
    const ExecutionContext context = stream_of(team, implementation);
    apply_capacity(context, *weights, *experts, {.experts = 4, .capacity = 1}, *kept_weights, *kept, *dropped);
    wait();
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(kept.get(i), expected[i]) << i;
    EXPECT_EQ(dropped.get(0), 3);
    // As three sequences no choice is in the way of another.
    apply_capacity(context, *weights, *experts, {.experts = 4, .sequences = 3, .capacity = 1}, *kept_weights, *kept, *dropped);
    wait();
    EXPECT_EQ(dropped.get(0), 0);
    EXPECT_TRUE(same_bits(kept_weights, weights));
  }
}

TEST(Capacity, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  Data weights(DType::f32, {4, 2}), half(DType::bf16, {4, 2}), other(DType::f32, {4, 3}), experts(DType::i32, {4, 2}),
      kept(DType::i32, {4, 2}), dropped(DType::i32, {1}), two(DType::i32, {2});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto apply = [&](const Data& from, const CapacityOptions& options, const Data& count) {
    return thrown([&] { apply_capacity(fast(team), *from, *experts, options, *weights, *kept, *count); });
  };
  EXPECT_EQ(apply(weights, {.experts = 3, .sequences = 2, .capacity = 1}, dropped), -1);
  EXPECT_EQ(apply(half, {.experts = 3, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(other, {.experts = 3, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(weights, {.experts = 3, .capacity = 1}, two), internal);
  EXPECT_EQ(apply(weights, {.experts = 3, .sequences = 3, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(weights, {.experts = 3, .sequences = 0, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(weights, {.experts = 0, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(weights, {.experts = 5000, .capacity = 1}, dropped), internal);
  EXPECT_EQ(apply(weights, {.experts = 3, .capacity = -1}, dropped), internal);
  EXPECT_EQ(thrown([&] { apply_capacity_input_gradient(fast(team), *other, *kept, *weights); }), internal);
  EXPECT_EQ(thrown([&] { apply_capacity_input_gradient(fast(team), *weights, *weights, *weights); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
