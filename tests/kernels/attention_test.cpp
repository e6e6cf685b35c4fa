#include "kernels/attention.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "tests/kernels/attention_cases.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(Attention, MatchesReference) {
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const ExecutionContext plain(team, Implementation::reference);
  for (const AttentionCase& c : kAttentionCases) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs expected(in);
    forward(plain, in, expected);
    backward(plain, in, expected, expected);
    Outputs found(in);
    forward(context, in, found);
    backward(context, in, expected, found);
    const Truth truth(in, expected);
    truth.expect_forward(found);
    truth.expect_gradients(found);
    expect_sink_gradients(in, expected, found);
    expect_sink_gradients(in, expected, expected);
  }
}

TEST(Attention, TheReferenceIsTheDefinition) {
  ThreadTeam team(1);
  for (const AttentionCase& c : kAttentionCases) {
    if (c.dtype != DType::f32 || c.sequence > 150 || c.width > 64) continue;
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs found(in);
    forward(ExecutionContext(team, Implementation::reference), in, found);
    const Plain plain(in);
    std::vector<double> o(static_cast<std::size_t>(c.values()));
    for (std::int64_t vector = 0; vector < found.sums.elements(); ++vector) {
      double log_sum = 0;
      plain.attend(vector / c.heads, vector % c.heads, o.data(), log_sum);
      // Values stay doubles until they are stored.
      ASSERT_NEAR(found.sums.get(vector), log_sum, fp32_roundoff * std::abs(log_sum) + 1e-13) << vector;
      for (std::int64_t d = 0; d < c.values(); ++d) {
        const double value = o[static_cast<std::size_t>(d)];
        ASSERT_NEAR(found.o.get(vector * c.values() + d), value, fp32_roundoff * std::abs(value) + 1e-13) << vector << " " << d;
      }
    }
  }
}

// One key and a sink with the same score share the probability.
TEST(Attention, ASinkTakesItsShare) {
  Inputs in({1, 1, 1, 1, 4, DType::f32, 0, 1.0F, 0, 0, 0, true, true});
  double score = 0;
  for (std::int64_t d = 0; d < 4; ++d) score += in.q.get(d) * in.k.get(d);
  in.sinks.set(0, score);
  const Outputs out = run(in);
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_NEAR(out.o.get(d), in.v.get(d) / 2, 1e-6);
  EXPECT_NEAR(out.sums.get(0), score + std::log(2.0), 1e-6);
}

TEST(Attention, LargeScoresStayFinite) {
  AttentionCase c{1, 80, 2, 1, 16, DType::f32, 0};
  c.scale = 3000.0F;
  const Inputs in(c);
  ThreadTeam team(1);
  Outputs expected(in);
  forward(ExecutionContext(team, Implementation::reference), in, expected);
  const Outputs found = run(in);
  // A score in the thousands has an error of 1e-3 and more in fp32, which is then the relative error of its exponential.
  Truth(in, expected).expect_forward(found);
  for (std::int64_t i = 0; i < found.dk.elements(); ++i) ASSERT_TRUE(std::isfinite(found.dk.get(i))) << i;
}

// Later tiles of keys have higher scores, by less and by more than the fast kernel's slack, so that sums must be rescaled.
TEST(Attention, FollowsScoresThatRise) {
  constexpr double levels[] = {0, 2, 5, 25, 24, 80};
  for (const bool sinks : {false, true}) {
    Inputs in({1, 330, 2, 1, 16, DType::f32, 0, 0.5F, 0, 0, 0, true, sinks});
    for (std::int64_t i = 0; i < in.q.elements(); i += 16) in.q.set(i, 2);
    for (std::int64_t u = 0; u < 330; ++u) in.k.set(u * 16, levels[u / 64]);
    ThreadTeam team(2);
    Outputs expected(in);
    forward(ExecutionContext(team, Implementation::reference), in, expected);
    backward(ExecutionContext(team, Implementation::reference), in, expected, expected);
    Outputs found(in);
    forward(fast(team), in, found);
    backward(fast(team), in, expected, found);
    const Truth truth(in, expected);
    truth.expect_forward(found);
    truth.expect_gradients(found);
  }
}

TEST(Attention, OneTokenSeesItself) {
  const Inputs in({1, 1, 2, 1, 8, DType::f32, 0, 0.5F});
  const Outputs out = run(in);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(static_cast<float>(out.o.get(i)), static_cast<float>(in.v.get(i % 8)));
  double score = 0;
  for (std::int64_t d = 0; d < 8; ++d) score += in.q.get(d) * in.k.get(d) * 0.5;
  EXPECT_NEAR(out.sums.get(0), score, 1e-6);
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_NEAR(out.dq.get(i), 0.0, 1e-6);
}

TEST(Attention, ZeroQueriesAverageWhatTheySee) {
  Inputs in({1, 100, 1, 1, 4, DType::f32, 30});
  for (std::int64_t i = 0; i < in.q.elements(); ++i) in.q.set(i, 0);
  const Outputs out = run(in);
  for (std::int64_t t = 0; t < 100; ++t) {
    const std::int64_t first = t / 30 * 30;
    for (std::int64_t d = 0; d < 4; ++d) {
      double mean = 0;
      for (std::int64_t u = first; u <= t; ++u) mean += in.v.get(u * 4 + d);
      EXPECT_NEAR(out.o.get(t * 4 + d), mean / static_cast<double>(t - first + 1), 1e-5) << t;
    }
    EXPECT_NEAR(out.sums.get(t), std::log(static_cast<double>(t - first + 1)), 1e-5) << t;
  }
}

TEST(Attention, AWindowOfOneTokenYieldsItsValue) {
  const Inputs in({1, 100, 2, 1, 8, DType::f32, 0, 0.5F, 1});
  const Outputs out = run(in);
  for (std::int64_t t = 0; t < 100; ++t)
    for (std::int64_t d = 0; d < 16; ++d)
      EXPECT_FLOAT_EQ(static_cast<float>(out.o.get(t * 16 + d)), static_cast<float>(in.v.get(t * 8 + d % 8)));
}

// Limits that exclude nothing do not change any bit.
TEST(Attention, AWindowAndAChunkAsLongAsTheRowAreNone) {
  const Outputs expected = run(Inputs({2, 150, 2, 1, 16, DType::f32, 60}));
  for (const auto& [window, chunk] : {std::pair{150, 0}, {1000, 0}, {0, 150}, {0, 151}, {150, 4096}}) {
    AttentionCase c{2, 150, 2, 1, 16, DType::f32, 60};
    c.window = window;
    c.chunk = chunk;
    const Outputs found = run(Inputs(c));
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, expected.*member)) << window << " " << chunk;
  }
}

// Key 0 is seen only by the first 100 queries and the tiles that contain them; later tiles do not even read it.
TEST(Attention, AWindowPassesOverTilesThatItDoesNotSee) {
  Inputs in({1, 256, 1, 1, 16, DType::f32, 0, 0.3F, 100});
  const Outputs before = run(in);
  in.v.set(0, std::numeric_limits<double>::quiet_NaN());
  in.k.set(0, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in);
  EXPECT_TRUE(std::isnan(after.o.get(60 * 16)));
  for (std::int64_t i = 192 * 16; i < 256 * 16; ++i) ASSERT_EQ(after.o.get(i), before.o.get(i)) << i;
}

TEST(Attention, PairsAreThoseThatMeet) {
  for (const std::int64_t sequence : {1, 7, 64, 100})
    for (const std::int64_t window : {0, 1, 5, 64, 200})
      for (const std::int64_t chunk : {0, 1, 9, 33, 500}) {
        double causal = 0, pairs = 0;
        for (std::int64_t t = 0; t < sequence; ++t)
          for (std::int64_t u = 0; u < sequence; ++u) {
            const bool meet = (window == 0 || std::abs(u - t) < window) && (chunk == 0 || u / chunk == t / chunk);
            if (meet) ++pairs;
            if (meet && u <= t) ++causal;
          }
        AttentionOptions options{.sequence = sequence, .window = window, .chunk = chunk};
        EXPECT_EQ(attention_pairs(options), causal) << sequence << " " << window << " " << chunk;
        options.causal = false;
        EXPECT_EQ(attention_pairs(options), pairs) << sequence << " " << window << " " << chunk;
      }
}

// Choices of all blocks do not change any bit. (A GPU has kernels of their own for choices.)
TEST(Attention, AChoiceOfEverythingIsNone) {
  MILLRACE_CPU_ONLY();
  AttentionCase c{2, 150, 2, 1, 16, DType::f32, 60};
  const Outputs expected = run(Inputs(c));
  for (const std::int64_t block : {1, 40, 64, 150, 1000}) {
    c.block = block;
    c.blocks = 150;
    const Outputs found = run(Inputs(c));
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, expected.*member)) << block;
  }
}

// Queries of the last tiles have their own block alone: they do not even read the first key.
TEST(Attention, AChoicePassesOverTilesThatNoQueryHas) {
  Inputs in({1, 256, 1, 1, 16, DType::f32, 0, 0.3F, 0, 0, 0, true, false, false, 0, 128, 1});
  const Outputs before = run(in);
  in.v.set(0, std::numeric_limits<double>::quiet_NaN());
  in.k.set(0, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in);
  EXPECT_TRUE(std::isnan(after.o.get(60 * 16)));
  for (std::int64_t i = 128 * 16; i < 256 * 16; ++i) ASSERT_EQ(after.o.get(i), before.o.get(i)) << i;
}

TEST(Attention, PairsOfBlocksAreThoseThatMeet) {
  for (const std::int64_t sequence : {1, 7, 64, 100})
    for (const std::int64_t block : {1, 9, 33, 500})
      for (const std::int64_t blocks : {1, 2, 5, 200}) {
        double pairs = 0;
        for (std::int64_t t = 0; t < sequence; ++t) pairs += static_cast<double>(t % block + 1 + std::min(blocks - 1, t / block) * block);
        const AttentionOptions options{.sequence = sequence, .block = block, .blocks = blocks};
        EXPECT_EQ(attention_pairs(options), pairs) << sequence << " " << block << " " << blocks;
      }
}

// On a GPU, with a head size that no library supports.
TEST(Attention, OneSegmentIsNotRead) {
  if (!on_device()) GTEST_SKIP() << "of a GPU alone";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionCase c{2, 150, 2, 1, 20, dtype, 0, 0.3F, 100};
    const Outputs expected = run(Inputs(c));
    c.one_segment = true;
    Inputs in(c);
    for (std::int64_t t = 0; t < 300; ++t) in.segments.set(t, t * 7 % 5);
    const Outputs found = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, expected.*member));
  }
}

void expect_reference(const AttentionCase& c) {
  ThreadTeam team(2);
  const ExecutionContext context = fast(team), plain(team, Implementation::reference);
  const Inputs in(c);
  Outputs expected(in);
  forward(plain, in, expected);
  backward(plain, in, expected, expected);
  Outputs found(in);
  forward(context, in, found);
  backward(context, in, expected, found);
  const Truth truth(in, expected);
  truth.expect_forward(found);
  truth.expect_gradients(found);
}

// Cases that a GPU's library may compute instead of our kernels. It rounds probabilities and their gradients to bf16 before it
// multiplies them.
TEST(Attention, RowsOfOneSegmentMatchReference) {
  for (const auto& [sequence, width, kv_heads, causal] : {std::tuple{64, 64, 2, true},
                                                          {64, 128, 4, false},
                                                          {128, 128, 2, true},
                                                          {128, 64, 2, false},
                                                          {200, 64, 4, true},
                                                          {200, 128, 2, false}}) {
    const AttentionCase c{1, sequence, 4, kv_heads, width, DType::bf16, 0, 0.2F, 0, 0, 0, causal, false, true};
    SCOPED_TRACE(describe(c));
    expect_reference(c);
  }
}

// Rows of whole 64 tokens, which a GPU with wide tensor cores takes by kernels of their own: every mask, and tiles of keys and queries that
// are seen in part, as a whole and not at all.
TEST(Attention, RowsOfWholeTilesMatchReference) {
  constexpr DType bf16 = DType::bf16;
  for (const AttentionCase& c :
       {AttentionCase{1, 64, 1, 1, 64, bf16, 0}, AttentionCase{2, 192, 4, 1, 64, bf16, 50},
        AttentionCase{1, 320, 2, 1, 32, bf16, 100, 0.3F, 70}, AttentionCase{2, 128, 2, 2, 40, bf16, 0, 0.2F, 0, 48},
        AttentionCase{1, 256, 4, 2, 128, bf16, 0, 0.2F, 0, 0, 0, true, true},
        AttentionCase{1, 192, 2, 1, 80, bf16, 65, 0.2F, 90, 128, 0, false},
        AttentionCase{1, 320, 2, 2, 64, bf16, 0, 0.2F, 64, 0, 0, false, false, true}, AttentionCase{3, 64, 3, 1, 128, bf16, 13, 0.2F},
        // Long enough for a ring of stages to be filled more than once.
        AttentionCase{1, 512, 4, 1, 64, bf16, 0, 0.2F, 0, 0, 0, true, false, true},
        AttentionCase{1, 448, 2, 1, 128, bf16, 0, 0.2F, 0, 0, 0, true, false, true},
        AttentionCase{1, 512, 4, 1, 64, bf16, 100, 0.2F, 150}}) {
    SCOPED_TRACE(describe(c));
    expect_reference(c);
  }
}

// Many tiles and heads concurrently: sums added in varying order would differ here.
TEST(Attention, RowsOfOneSegmentRepeat) {
  if (!on_device()) GTEST_SKIP() << "of a GPU alone";
  // Emulation on a CPU is slow.
  const std::int64_t scale = cuda_devices().front().name.find("mulated") == std::string::npos ? 8 : 1;
  const Inputs in({2, 70 * scale, 2 * scale, scale, 64, DType::bf16, 0, 0.1F, 0, 0, 0, true, false, true});
  const Outputs expected = run(in);
  for (std::int64_t i = 0; i < scale; ++i) {
    const Outputs found = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv})
      EXPECT_TRUE(same_bits(found.*member, expected.*member));
  }
}

TEST(Attention, SameBitsForAnyThreadCount) {
  for (const AttentionCase& c : kAttentionCases) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    const Outputs one = run(in, 1);
    for (const int threads : {2, 3}) {
      if (on_device() && threads == 3) continue;  // it has no threads of ours: one repetition is enough
      const Outputs many = run(in, threads);
      EXPECT_TRUE(same_bits(one.o, many.o));
      EXPECT_TRUE(same_bits(one.sums, many.sums));
      EXPECT_TRUE(same_bits(one.dq, many.dq));
      EXPECT_TRUE(same_bits(one.dk, many.dk));
      EXPECT_TRUE(same_bits(one.dv, many.dv));
      EXPECT_TRUE(same_bits(one.d_sinks, many.d_sinks));
    }
  }
}

TEST(Attention, GradientsAreSlopes) {
  ThreadTeam team(1);
  for (const AttentionCase& c :
       {AttentionCase{1, 70, 2, 1, 6, DType::f32, 40, 0.7F}, AttentionCase{1, 70, 2, 1, 6, DType::f32, 0, 2.0F, 9, 0, 2.0F},
        AttentionCase{1, 70, 2, 1, 6, DType::f32, 0, 0.7F, 0, 25}, AttentionCase{1, 20, 2, 1, 6, DType::f32, 0, 0.7F, 0, 0, 1.0F, false},
        AttentionCase{1, 70, 2, 1, 6, DType::f32, 40, 0.7F, 9, 25, 0, false},
        AttentionCase{1, 30, 4, 2, 6, DType::f32, 0, 0.7F, 0, 0, 0, true, true},
        AttentionCase{1, 40, 4, 2, 6, DType::f32, 25, 0.7F, 9, 0, 2.0F, true, true, false, 3},
        AttentionCase{1, 40, 2, 1, 5, DType::f32, 0, 0.7F, 0, 15, 0, false, false, false, 9},
        AttentionCase{1, 50, 4, 2, 6, DType::f32, 30, 0.7F, 0, 0, 2.0F, true, true, false, 3, 8, 2}}) {
    SCOPED_TRACE(describe(c));
    const Inputs in(c);
    Outputs expected(in);
    forward(ExecutionContext(team, Implementation::reference), in, expected);
    backward(ExecutionContext(team, Implementation::reference), in, expected, expected);
    const Truth truth(in, expected);
    Plain plain(in);
    // The reference reads o and a log-sum in fp32; besides its bounds, steps of 1e-4 leave an error of 1e-8 times a third
    // derivative below 10.
    const auto expect_slopes = [&](const Data& gradient, std::vector<double> Plain::*operand, auto&& exact) {
      for (std::int64_t i = 0; i < gradient.elements(); i += 7)
        EXPECT_NEAR(gradient.get(i), plain.slope(operand, i), (exact(i).high - exact(i).low) / 2 + 1e-7) << i;
    };
    expect_slopes(expected.dq, &Plain::q, [&](std::int64_t i) { return truth.dq(i); });
    expect_slopes(expected.dk, &Plain::k, [&](std::int64_t i) { return truth.dk(i); });
    expect_slopes(expected.dv, &Plain::v, [&](std::int64_t i) { return truth.dv(i); });
    if (!c.sinks) continue;
    const Outputs before(in);
    for (std::int64_t h = 0; h < expected.d_sinks.elements(); ++h)
      EXPECT_NEAR(expected.d_sinks.get(h) - before.d_sinks.get(h), plain.slope(&Plain::sinks, h), 1e-6) << h;
  }
}

TEST(Attention, PaddingIsFinite) {
  Inputs in({1, 100, 2, 1, 16, DType::bf16, 30});
  for (std::int64_t t = 60; t < 100; ++t) in.segments.set(t, 0);
  const Outputs out = run(in);
  for (const auto member : {&Outputs::o, &Outputs::dq, &Outputs::dk, &Outputs::dv})
    for (std::int64_t i = 0; i < (out.*member).elements(); ++i) ASSERT_TRUE(std::isfinite((out.*member).get(i))) << i;
}

TEST(Attention, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  expect_no_allocations({2, 100, 2, 1, 64, DType::bf16, 0});
}

TEST(Attention, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Inputs in({1, 10, 4, 2, 8, DType::f32, 0});
  Outputs out(in);
  const Buffer scratch = scratch_of(context, in);
  const auto call = [&](const Tensor& k, AttentionOptions options, Scratch memory) {
    return thrown([&] { attention_forward(context, *in.q, k, *in.v, *in.segments, options, *out.o, *out.sums, memory); });
  };
  EXPECT_EQ(call(*in.k, in.options(), scratch.bytes()), -1);
  const Data three_heads(DType::f32, {10, 3, 8});
  EXPECT_EQ(call(*three_heads, in.options(), scratch.bytes()), static_cast<int>(ExitCode::config));
  const Data other_type(DType::bf16, {10, 2, 8});
  EXPECT_EQ(call(*other_type, in.options(), scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, {.sequence = 4}, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .window = -1}, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .head_dim = 4}, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, in.options(), scratch.bytes().first(64)), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .block = -1}, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*in.k, {.sequence = 10, .block = 4}, scratch.bytes()), static_cast<int>(ExitCode::internal));  // without a choice
  EXPECT_EQ(call(*in.k, {.sequence = 10, .causal = false, .block = 4}, scratch.bytes()), static_cast<int>(ExitCode::config));
  const Data few(DType::i32, {10, 4, 1}), many(DType::i32, {10, 4, 2});
  const auto with = [&](const Tensor& choice, std::int64_t block) {
    AttentionOptions options = in.options();
    options.block = block;
    return thrown([&] {
      attention_forward(context, *in.q, *in.k, *in.v, *in.segments, options, *out.o, *out.sums, scratch.bytes(), nullptr, &choice);
    });
  };
  EXPECT_EQ(with(*few, 4), -1);
  EXPECT_EQ(with(*many, 4), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(with(*few, 0), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
