#include <string>

#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device_type.hpp"
#include "tests/kernels/attention_cases.hpp"

// Queries and keys of one head width, and values of another. The cases of attention_cases.hpp have such heads too.
namespace millrace::kernels::testing {
namespace {

constexpr auto kAttentionOutputs = {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv, &Outputs::d_sinks};

const AttentionCase kEqualWidths[] = {
    {2, 65, 4, 2, 32, DType::f32, 0},
    {1, 150, 3, 1, 13, DType::f32, 50},
    {1, 130, 2, 1, 128, DType::f32, 0, 0.1F, 40},
    {1, 70, 2, 1, 160, DType::f32, 0, 0.3F, 40, 0, 5, true, true},
    {1, 200, 2, 1, 16, DType::f32, 0, 0.3F, 30, 70, 0, false, true},
    {1, 140, 2, 1, 24, DType::bf16, 60, 0.3F, 20, 0, 5, true, true},
    {1, 130, 4, 2, 64, DType::bf16, 0},
    {1, 100, 2, 1, 77, DType::bf16, 70, 0.3F, 0, 50},
    {1, 100, 2, 1, 128, DType::bf16, 65, 0.1F, 0, 0, 0, false},
    {1, 70, 4, 2, 136, DType::bf16, 0, 0.3F, 40, 0, 5, false, true},
};

// FNV-1a over the bytes of every result of those cases of one dtype.
std::string bits_of_equal_widths(const ExecutionContext& context, DType dtype) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const AttentionCase& c : kEqualWidths) {
    if (c.dtype != dtype) continue;
    const Inputs in(c);
    Outputs out(in);
    forward(context, in, out);
    backward(context, in, out, out);
    for (const auto member : kAttentionOutputs) {
      const Tensor& tensor = *(out.*member);
      for (std::size_t i = 0; i < tensor.bytes(); ++i) hash = (hash ^ static_cast<std::uint64_t>(tensor.data[i])) * 0x100000001b3ULL;
    }
  }
  return fmt::format("{:016x}", hash);
}

// Recorded before values could have a width of their own (commit a016c34), by GCC 12 with glibc 2.36, whose exponentials and logarithms are
// part of them.
TEST(AttentionWidths, EqualWidthsHaveTheBitsOfBefore) {
  struct Recorded {
    const char *f32, *bf16;
  };
  const Recorded reference{"f6f668b457d56e87", "72da1fdb6030f27f"};
  const Recorded cpu[] = {{"32a28e3770db1d20", "7befbefdbd766981"},   // baseline
                          {"6f8f6f8b1c2bf316", "a50cac9bf2ed71de"},   // avx2
                          {"0f7f631eb57eb745", "96732b654439a255"}};  // avx512
  // Recorded when they came into use: the tiles of AMX and their model, and AVX-512's dot products.
  const char *const tiles = "432cbae17daafb94", *const dot_products = "db4ea0709ebc0a10";
  const Recorded emulated{"74c695057040c68f", "106c9436a98bde8c"};
  ThreadTeam team(2);
  const auto expect = [](const ExecutionContext& context, const Recorded& recorded, const std::string& name) {
    EXPECT_EQ(bits_of_equal_widths(context, DType::f32), recorded.f32) << name;
    EXPECT_EQ(bits_of_equal_widths(context, DType::bf16), recorded.bf16) << name;
  };
  expect(ExecutionContext(team, Implementation::reference), reference, "reference");
  if (!on_device()) {
    Recorded recorded = cpu[static_cast<std::size_t>(cpu_features().isa)];
    if (cpu_features().fast_bf16()) recorded.bf16 = cpu_features().amx_bf16 ? tiles : dot_products;
    expect(fast(team), recorded, describe(cpu_features()));
  } else if (cuda_devices().front().name.find("mulated") != std::string::npos) {
    expect(fast(team), emulated, "emulated");
  }
}

TEST(AttentionWidths, AValueWidthThatIsTheHeadsIsNone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionCase c{2, 70, 4, 2, 20, dtype, 30, 0.3F, 40, 0, 5, true, true};
    const Outputs expected = run(Inputs(c));
    c.value_width = 20;
    const Outputs found = run(Inputs(c));
    for (const auto member : kAttentionOutputs) EXPECT_TRUE(same_bits(found.*member, expected.*member));
  }
}

// Every feature of a result is a sum of its own, so those of narrow values are the first ones of wide values, and so are those of dv. On a
// GPU the order of the sum depends on the width.
TEST(AttentionWidths, AFeatureDoesNotDependOnTheWidth) {
  MILLRACE_CPU_ONLY();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionCase c{1, 150, 2, 1, 24, dtype, 60, 0.3F, 90, 0, 0, true, true};
    c.value_width = 40;
    const Inputs wide(c);
    c.value_width = 7;
    Inputs narrow(c);
    const auto take = [](const Data& from, Data& to) {
      for (std::int64_t i = 0; i < to.elements(); ++i) to.set(i, from.get(i / 7 * 40 + i % 7));
    };
    take(wide.v, narrow.v);
    take(wide.d_o, narrow.d_o);
    const Outputs of_wide = run(wide), found = run(narrow);
    EXPECT_TRUE(same_bits(found.sums, of_wide.sums));
    for (const auto member : {&Outputs::o, &Outputs::dv}) {
      Data expected(found.*member);
      take(of_wide.*member, expected);
      EXPECT_TRUE(same_bits(found.*member, expected));
    }
  }
}

// With values that have a feature of ones, that feature of o is the sum of the probabilities, and the scores have no gradient along it.
TEST(AttentionWidths, ValuesOfOneFeatureThatAreOneYieldOne) {
  AttentionCase c{1, 90, 2, 1, 12, DType::f32, 40};
  c.value_width = 1;
  Inputs in(c);
  for (std::int64_t u = 0; u < 90; ++u) in.v.set(u, 1);
  const Outputs out = run(in);
  // A quotient of two sums of 40 terms, and what cancels to zero has the terms |dO|·scale·|k| with |dO| <= 1 and |k| <= √12.
  for (std::int64_t i = 0; i < out.o.elements(); ++i) ASSERT_NEAR(out.o.get(i), 1, roundings(80)) << i;
  for (std::int64_t i = 0; i < out.dq.elements(); ++i) ASSERT_NEAR(out.dq.get(i), 0, roundings(120) * 0.3 * std::sqrt(12.0)) << i;
}

TEST(AttentionWidths, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  AttentionCase c{1, 100, 2, 1, 64, DType::bf16, 0};
  c.value_width = 200;
  expect_no_allocations(c);
}

TEST(AttentionWidths, RefusesOtherWidths) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  AttentionCase c{1, 10, 4, 2, 8, DType::f32, 0};
  c.value_width = 5;
  const Inputs in(c);
  Outputs out(in);
  const Buffer scratch = scratch_of(context, in);
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const Data wide_v(DType::f32, {10, 2, 8}), wide_o(DType::f32, {10, 4, 8});
  const auto call = [&](const Tensor& v, const Tensor& o, std::int64_t v_head_dim) {
    AttentionOptions options = in.options();
    options.v_head_dim = v_head_dim;
    return thrown([&] { attention_forward(context, *in.q, *in.k, v, *in.segments, options, o, *out.sums, scratch.bytes()); });
  };
  EXPECT_EQ(call(*in.v, *out.o, 5), -1);
  EXPECT_EQ(call(*wide_v, *out.o, 5), internal);
  EXPECT_EQ(call(*in.v, *wide_o, 5), internal);
  EXPECT_EQ(call(*in.v, *out.o, 0), internal);
  EXPECT_EQ(call(*in.v, *out.o, -5), static_cast<int>(ExitCode::config));
  const auto gradient = [&](const Tensor& d_o, const Tensor& dv) {
    return thrown([&] {
      attention_input_gradient(context, d_o, *in.q, *in.k, *in.v, *out.o, *out.sums, *in.segments, in.options(), *out.dq, *out.dk, dv,
                               scratch.bytes());
    });
  };
  EXPECT_EQ(gradient(*in.d_o, *out.dv), -1);
  EXPECT_EQ(gradient(*wide_o, *out.dv), internal);
  EXPECT_EQ(gradient(*in.d_o, *wide_v), internal);
}

// A GPU's tiles hold heads of up to 256 features, of either kind.
TEST(AttentionWidths, RefusesWiderHeadsThanAGpuHolds) {
  if (!on_device()) GTEST_SKIP() << "only a GPU has this limit";
  AttentionCase c{1, 4, 1, 1, 8, DType::f32, 0};
  c.value_width = 257;
  const Inputs in(c);
  ThreadTeam team(1);
  Outputs out(in);
  EXPECT_EQ(thrown([&] { forward(fast(team), in, out); }), static_cast<int>(ExitCode::config));
}

}  // namespace
}  // namespace millrace::kernels::testing
