#include "kernels/gated_delta_rule.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/gated_delta_rule_cases.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

const std::vector<DeltaCase> kDeltaCases = {
    {1, 1, 1, 1, 5, 3},
    {3, 1, 1, 2, 16, 16},
    {1, 63, 1, 2, 8, 12},
    {2, 64, 2, 1, 16, 16},
    {1, 65, 1, 3, 20, 33},
    {2, 130, 2, 2, 24, 40},
    {1, 130, 1, 3, 12, 7, DType::f32, 50},
    {1, 130, 2, 1, 7, 12, DType::f32, 64},
    {1, 150, 1, 2, 9, 17, DType::f32, 65, 0.3, -1, 20},
    {1, 150, 1, 2, 9, 17, DType::f32, 65, 0.3, -1, 20, false},
    {1, 130, 1, 2, 12, 12, DType::f32, 0, -20},
    {1, 130, 1, 2, 12, 12, DType::f32, 0, -1e-7},
    {1, 130, 1, 2, 12, 12, DType::f32, 0, 300},
    {1, 130, 1, 1, 12, 12, DType::f32, 0, 0.3, 0},
    {1, 130, 1, 1, 12, 12, DType::f32, 0, 0.3, 1},
    {1, 130, 1, 1, 12, 12, DType::f32, 30, -1e-7, 1},
    {1, 70, 1, 1, 128, 96},
    {1, 1, 1, 1, 5, 3, DType::bf16},
    {1, 65, 1, 3, 20, 33, DType::bf16},
    {2, 130, 2, 2, 24, 40, DType::bf16, 50, 0.3, -1, 7},
};

double largest(const Data& x) {
  double most = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) most = std::max(most, std::abs(x.at(i)));
  return most;
}

/// Relative to a result's largest entry. Keys have length 1 and betas are at most 1, so that neither a state nor the solution of a chunk
/// exceeds the values it is made of by more than a small factor. An entry then passes sums over a chunk's tokens and the features of both
/// kinds, and through one such chain more for each level: U, its product with a state, the gradient's own.
double error_of(const DeltaCase& c) { return roundings(4 * static_cast<double>(gated_delta_rule_chunk + c.head_k_dim + c.head_v_dim)); }

TEST(GatedDeltaRule, ForwardIsTheRecurrence) {
  ThreadTeam team(2);
  for (const DeltaCase& c : kDeltaCases) {
    SCOPED_TRACE(describe(c));
    const DeltaInputs in(c);
    const auto truth = PlainDelta(in).forward();
    double most = 0;
    for (const double value : truth) most = std::max(most, std::abs(value));
    const double error = c.dtype == DType::f32 ? std::min(1e-5, error_of(c)) : error_of(c);
    for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
      const DeltaOutputs out = run(stream_of(team, implementation), in, false);
      EXPECT_TRUE(lies_within(out.o, [&](std::int64_t i) { return around(truth[PlainDelta::at(i)], error * most); }));
    }
  }
}

// The reference takes the recurrence back in double; its gradients are compared with slopes below.
TEST(GatedDeltaRule, GradientsAreThoseOfTheRecurrence) {
  ThreadTeam team(2);
  for (const DeltaCase& c : kDeltaCases) {
    SCOPED_TRACE(describe(c));
    const DeltaInputs in(c);
    const DeltaOutputs expected = run(ExecutionContext(team, Implementation::reference), in), found = run(fast(team), in);
    for (std::size_t result = 1; result < delta_results.size(); ++result) {
      SCOPED_TRACE(result);
      const Data& truth = expected.*delta_results[result];
      const double most = largest(truth), stored = (*truth).dtype == DType::bf16 ? tests::bf16_roundoff : 0;
      EXPECT_TRUE(lies_within(found.*delta_results[result],
                              [&](std::int64_t i) { return around(truth.at(i), error_of(c) * most + stored * std::abs(truth.at(i))); }));
    }
  }
}

TEST(GatedDeltaRule, GradientsAreSlopes) {
  ThreadTeam team(1);
  for (const DeltaCase& c : {DeltaCase{1, 1, 1, 1, 3, 2}, DeltaCase{2, 5, 1, 2, 3, 2}, DeltaCase{1, 70, 1, 2, 5, 4, DType::f32, 40},
                             DeltaCase{1, 70, 1, 1, 5, 4, DType::f32, 40, 0.3, -1, 4, false},
                             DeltaCase{1, 70, 1, 1, 5, 4, DType::f32, 66, 0.3, -1, 2}, DeltaCase{1, 70, 1, 1, 5, 4, DType::f32, 0, -20},
                             DeltaCase{1, 70, 1, 1, 5, 4, DType::f32, 0, 0.1, 0}, DeltaCase{1, 70, 1, 1, 5, 4, DType::f32, 0, 0.1, 1}}) {
    SCOPED_TRACE(describe(c));
    const DeltaInputs in(c);
    PlainDelta plain(in);
    struct Pair {
      const char* name;
      std::vector<double> PlainDelta::*operand;
      Data DeltaOutputs::*gradient;
    };
    const DeltaOutputs found = run(fast(team), in), expected = run(ExecutionContext(team, Implementation::reference), in);
    for (const auto& [name, operand, gradient] :
         {Pair{"q", &PlainDelta::q, &DeltaOutputs::dq}, Pair{"k", &PlainDelta::k, &DeltaOutputs::dk},
          Pair{"v", &PlainDelta::v, &DeltaOutputs::dv}, Pair{"g", &PlainDelta::g, &DeltaOutputs::dg},
          Pair{"beta", &PlainDelta::beta, &DeltaOutputs::dbeta}}) {
      const double most = largest(expected.*gradient);
      for (std::int64_t i = 0; i < (expected.*gradient).elements(); i += 1 + (expected.*gradient).elements() / 40) {
        const double slope = plain.slope(operand, i);
        // Steps of 1e-5 leave 1e-10 times a third derivative, and 1e-16 of a sum of some hundred terms over the step.
        EXPECT_NEAR((expected.*gradient).get(i), slope, roundings(1) * std::abs(slope) + 1e-8) << name << " " << i;
        EXPECT_NEAR((found.*gradient).get(i), slope, error_of(c) * most + 1e-8) << name << " " << i;
      }
    }
  }
}

TEST(GatedDeltaRule, SameBitsForAnyThreadCount) {
  for (const DeltaCase& c : kDeltaCases) {
    SCOPED_TRACE(describe(c));
    const DeltaInputs in(c);
    ThreadTeam one(1);
    const DeltaOutputs expected = run(fast(one), in);
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      const DeltaOutputs found = run(fast(team), in);
      for (const auto result : delta_results) EXPECT_TRUE(same_bits(expected.*result, found.*result));
    }
  }
}

TEST(GatedDeltaRule, APromisedSegmentIsNotRead) {
  ThreadTeam team(2);
  DeltaInputs in({2, 100, 2, 2, 12, 20});
  const DeltaOutputs read = run(fast(team), in);
  in.shape.one_segment = true;
  for (std::int64_t t = 0; t < in.segments.elements(); ++t) in.segments.set(t, static_cast<double>(t % 3));
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const DeltaOutputs promised = run(stream_of(team, implementation), in);
    for (const auto result : delta_results)
      EXPECT_TRUE(implementation == Implementation::reference || same_bits(read.*result, promised.*result));
    EXPECT_NEAR(promised.o.get(4000), read.o.get(4000), 1e-5);
  }
}

// Neither the values nor the gradients of a document depend on another's, to the bit.
TEST(GatedDeltaRule, DocumentsAreSeparate) {
  ThreadTeam team(2);
  const DeltaCase c{1, 150, 1, 2, 12, 20, DType::f32, 70};
  const DeltaInputs in(c);
  DeltaInputs other(c);
  for (std::int64_t i = 0; i < 70 * 12; ++i) other.q.set(i, -0.5 * other.q.get(i)), other.k.set(i, 0.7 * other.k.get(i));
  for (std::int64_t i = 0; i < 70 * 40; ++i) other.v.set(i, 3 * other.v.get(i)), other.d_o.set(i, -2 * other.d_o.get(i));
  for (std::int64_t i = 0; i < 70 * 2; ++i) other.g.set(i, 5 * other.g.get(i)), other.beta.set(i, 0.5 * other.beta.get(i));
  const DeltaOutputs first = run(fast(team), in), second = run(fast(team), other);
  for (const auto result : delta_results) {
    const Data &a = first.*result, &b = second.*result;
    const std::int64_t each = a.elements() / 150;
    for (std::int64_t i = 70 * each; i < a.elements(); ++i) EXPECT_EQ(a.get(i), b.get(i)) << i;
    EXPECT_NE(a.get(2 * each), b.get(2 * each));
  }
}

// Without a reset the state passes the border.
TEST(GatedDeltaRule, AStateMayPassFromDocumentToDocument) {
  ThreadTeam team(1);
  const DeltaInputs apart({1, 40, 1, 1, 4, 4, DType::f32, 20}), joined({1, 40, 1, 1, 4, 4, DType::f32, 20, 0.3, -1, 0, false}),
      whole({1, 40, 1, 1, 4, 4});
  const DeltaOutputs a = run(fast(team), apart), b = run(fast(team), joined), c = run(fast(team), whole);
  EXPECT_NE(a.o.get(20 * 4), b.o.get(20 * 4));
  EXPECT_TRUE(same_bits(b.o, c.o));
  EXPECT_TRUE(same_bits(b.dk, c.dk));
}

TEST(GatedDeltaRule, PaddingLeavesTheStateAlone) {
  ThreadTeam team(1);
  DeltaInputs in({1, 100, 1, 1, 6, 5, DType::f32, 0, 0.3, -1, 0, false});
  for (const std::int64_t t : {10, 64, 65}) in.segments.set(t, 0);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const DeltaOutputs before = run(stream_of(team, implementation), in);
    DeltaInputs changed = in;
    for (const std::int64_t t : {10, 64, 65}) {
      for (std::int64_t i = 0; i < 6; ++i) changed.k.set(t * 6 + i, 9);
      for (std::int64_t j = 0; j < 5; ++j) changed.v.set(t * 5 + j, 9);
      changed.g.set(t, -9);
    }
    const DeltaOutputs after = run(stream_of(team, implementation), changed);
    for (const auto result : delta_results) EXPECT_TRUE(same_bits(before.*result, after.*result));
    for (const std::int64_t t : {10, 64, 65}) {
      EXPECT_EQ(after.dg.get(t), 0);
      EXPECT_EQ(after.dk.get(t * 6 + 1), 0);
      EXPECT_EQ(after.dv.get(t * 5 + 1), 0);
      EXPECT_NE(after.dq.get(t * 6 + 1), 0);
    }
  }
}

TEST(GatedDeltaRule, CountsItsProducts) {
  // Two rows of 65 tokens, so 64·65/2 + 1 pairs each; 3 key heads of 5, 6 value heads of 7.
  const GatedDeltaRuleFlops flops = gated_delta_rule_flops(130, 3, 6, {.sequence = 65, .head_k_dim = 5, .head_v_dim = 7});
  const double state = 2.0 * 130 * 6 * 5 * 7, pairs = 2 * (64 * 65 / 2 + 1), keys = 2 * pairs * 3 * 5, values = 2 * pairs * 6 * 7;
  EXPECT_EQ(flops.forward, 3 * state + 2 * keys + 2 * values);
  EXPECT_EQ(flops.gradient, 8 * state + 3 * keys + 5 * values + 4 * (2 * pairs * 6 * 5));
}

TEST(GatedDeltaRule, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  const DeltaInputs in({1, 100, 2, 2, 64, 64, DType::bf16});
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const auto options = in.shape.options();
  const DeltaOutputs out(in);
  const Buffer scratch(gated_delta_rule_gradient_scratch_bytes((*in.q).shape, (*in.v).shape, options, context.processor()));
  const std::int64_t before = large_allocations();
  gated_delta_rule_forward(context, *in.q, *in.k, *in.v, *in.g, *in.beta, *in.segments, options, *out.o, scratch.bytes());
  gated_delta_rule_input_gradient(context, *in.d_o, *in.q, *in.k, *in.v, *in.g, *in.beta, *in.segments, options, *out.dq, *out.dk, *out.dv,
                                  *out.dg, *out.dbeta, scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

TEST(GatedDeltaRule, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const DeltaInputs in({1, 10, 2, 2, 8, 6});
  const DeltaOutputs out(in);
  const auto options = in.shape.options();
  const Buffer scratch =
      scratch_of(context, gated_delta_rule_forward_scratch_bytes((*in.q).shape, (*in.v).shape, options, context.processor()));
  const auto call = [&](const Tensor& k, const Tensor& v, const Tensor& g, GatedDeltaRuleOptions given, Scratch memory) {
    return thrown([&] { gated_delta_rule_forward(context, *in.q, k, v, g, *in.beta, *in.segments, given, *out.o, memory); });
  };
  constexpr int internal = static_cast<int>(ExitCode::internal), config = static_cast<int>(ExitCode::config);
  EXPECT_EQ(call(*in.k, *in.v, *in.g, options, scratch.bytes()), -1);
  const Data three_heads(DType::f32, {10, 3, 6}), other_type(DType::bf16, {10, 2, 8}), half(DType::bf16, {10, 4});
  EXPECT_EQ(call(*in.k, *three_heads, *in.g, options, scratch.bytes()), config);
  EXPECT_EQ(call(*other_type, *in.v, *in.g, options, scratch.bytes()), internal);
  EXPECT_EQ(call(*in.k, *in.v, *half, options, scratch.bytes()), internal);
  EXPECT_EQ(call(*in.k, *in.v, *in.g, {.sequence = 4}, scratch.bytes()), internal);
  EXPECT_EQ(call(*in.k, *in.v, *in.g, {.sequence = 10, .head_k_dim = 4}, scratch.bytes()), internal);
  EXPECT_EQ(call(*in.k, *in.v, *in.g, options, scratch.bytes().first(64)), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
