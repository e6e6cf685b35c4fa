#include "kernels/cpu/gemm/tile_gemm_loops.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/packing.hpp"
#include "tests/kernels/fixture.hpp"

// A product of bf16, computed by tiles, by their model in C++, and by dot products of pairs.
namespace millrace::kernels::cpu {
namespace {

using testing::Data;

/// How the exponents of random operands are spread. The narrow ones have sums in which every rounding counts; the others reach numbers
/// that are too small for fp32.
struct Spread {
  const char* name;
  int lowest, count;
};

BFloat16 random_number(std::mt19937& random, const Spread& spread) {
  const auto exponent = static_cast<std::uint32_t>(spread.lowest) + random() % static_cast<std::uint32_t>(spread.count);
  BFloat16 value;
  value.bits = static_cast<std::uint16_t>((random() & 0x807fU) | exponent << 7U);
  return value;
}

/// c = op(a) · b [+ c | + addend], with the packed or the plain b.
struct Problem {
  std::int64_t m, n, k;
  bool transpose_a = false, packed = true, narrow = false, accumulate = false, addend = false;
  Data a, b, c, other;

  Problem(std::int64_t m_, std::int64_t n_, std::int64_t k_, bool transpose_a_, const Spread& spread, std::uint32_t seed)
      : m(m_),
        n(n_),
        k(k_),
        transpose_a(transpose_a_),
        a(DType::bf16, transpose_a_ ? Shape{k_, m_} : Shape{m_, k_}),
        b(DType::bf16, {k_, n_}),
        c(DType::f32, {m_, n_}, seed + 1),
        other(DType::f32, {m_, n_}, seed + 2) {
    std::mt19937 random(seed);
    for (const Data* data : {&a, &b})
      for (std::int64_t i = 0; i < data->elements(); ++i) (**data).as<BFloat16>()[i] = random_number(random, spread);
  }

  [[nodiscard]] std::vector<std::byte> run(tile_gemm_signature* gemm) const {
    const DType result = narrow ? DType::bf16 : DType::f32;
    const Data out(result, {m, n});
    if (accumulate) std::memcpy((*out).data, (*c).data, (*c).bytes());
    const Buffer packed_b(packed_bytes(k, n, DType::bf16)), memory(kTileGemmBytes);
    const PackedMatrix matrix{.data = (*b).data, .dtype = DType::bf16, .transpose = false, .rows = k, .columns = n, .step = n};
    pack_blocks(matrix, packed_b.data(), 0, matrix.blocks());
    gemm({.m = m,
          .n = n,
          .k = k,
          .a = (*a).as<BFloat16>(),
          .a_step = transpose_a ? m : k,
          .transpose_a = transpose_a,
          .b = packed ? reinterpret_cast<const BFloat16*>(packed_b.data()) : (*b).as<BFloat16>(),
          .b_step = packed ? 0 : n,
          .next_b = packed ? reinterpret_cast<const BFloat16*>(packed_b.data()) : nullptr,
          .wide = narrow ? nullptr : (*out).as<float>(),
          .narrow = narrow ? (*out).as<BFloat16>() : nullptr,
          .c_step = n,
          .accumulate = accumulate,
          .wide_addend = addend ? (*other).as<float>() : nullptr,
          .narrow_addend = nullptr,
          .addend_step = n},
         memory.data());
    return {(*out).data, (*out).data + (*out).bytes()};
  }

  /// Element (i, j) of op(a) · b in double.
  [[nodiscard]] double product(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p) sum += a.get(transpose_a ? p * m + i : i * k + p) * b.get(p * n + j);
    return sum;
  }
};

constexpr Spread spreads[] = {{"near one", 121, 12}, {"wide", 40, 60}, {"with denormal numbers", 0, 12}, {"below fp32", 55, 12}};

/// Skips where operands are not packed in bf16, on which this test relies.
#define NEEDS_PACKED_BF16() \
  if (!cpu_features().fast_bf16()) GTEST_SKIP() << "this processor does not multiply bf16; MILLRACE_ISA=amx_model does as if it did"

TEST(TileGemm, OfTheModelIsWithinRoundingsOfTheExactProduct) {
  NEEDS_PACKED_BF16();
  for (const bool transpose_a : {false, true})
    for (const bool packed : {false, true}) {
      Problem problem(45, 71, 139, transpose_a, spreads[0], 3);
      problem.packed = packed;
      const auto bytes = problem.run(&tile_model::tile_gemm);
      for (const std::int64_t i : {0, 15, 16, 31, 32, 44})
        for (const std::int64_t j : {0, 31, 32, 63, 64, 70}) {
          float value = 0;
          std::memcpy(&value, bytes.data() + (i * problem.n + j) * 4, sizeof value);
          EXPECT_NEAR(value, problem.product(i, j), 139 * 6e-8 * 64 * 64) << i << ", " << j;
        }
    }
}

/// Calls check(problem) for problems of odd sizes, every spread of exponents and every form.
template <class Check>
void for_each_problem(Check&& check) {
  constexpr std::int64_t sizes[][3] = {{1, 1, 1}, {32, 32, 32}, {33, 65, 70}, {48, 130, 1060}, {300, 64, 33}, {16, 600, 40}};
  std::uint32_t seed = 11;
  for (const auto& [m, n, k] : sizes)
    for (const Spread& spread : spreads)
      for (int form = 0; form < 8; ++form) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, {}, form {}", m, n, k, spread.name, form));
        Problem problem(m, n, k, (form & 1) != 0, spread, ++seed);
        problem.narrow = form / 2 == 1;
        problem.addend = form / 2 == 2;
        problem.accumulate = form / 2 == 3;
        problem.packed = form / 2 != 3;
        check(problem);
      }
}

TEST(TileGemm, HasTheModelsBitsOnTheProcessor) {
  if (!detected_cpu_features().amx_bf16) GTEST_SKIP() << "this processor has no tile registers";
  NEEDS_PACKED_BF16();
  for_each_problem([](const Problem& problem) { EXPECT_TRUE(problem.run(&tile_model::tile_gemm) == problem.run(&amx::tile_gemm)); });
}

/// What the processor's dot products make of a number that is too small to be a normal one.
float flushed(float x) { return std::fabs(x) < 1.17549435e-38F ? std::copysign(0.0F, x) : x; }

/// Element (i, j) as one chain over the pairs of the depth, the odd numbers of a pair first. An odd depth ends with zeros.
float chain(const Problem& problem, std::int64_t i, std::int64_t j) {
  float sum = problem.accumulate ? (*problem.c).as<float>()[i * problem.n + j] : 0.0F;
  const auto add = [&](std::int64_t p) {
    const bool inside = p < problem.k;
    const auto a = inside ? static_cast<float>(problem.a.get(problem.transpose_a ? p * problem.m + i : i * problem.k + p)) : 0.0F;
    const auto b = inside ? static_cast<float>(problem.b.get(p * problem.n + j)) : 0.0F;
    sum = flushed(std::fma(flushed(a), flushed(b), flushed(sum)));
  };
  for (std::int64_t p = 0; p < problem.k; p += 2) {
    add(p + 1);
    add(p);
  }
  return problem.addend ? sum + (*problem.other).as<float>()[i * problem.n + j] : sum;
}

TEST(TileGemm, IsAChainOfPairsByDotProducts) {
  if (!detected_cpu_features().avx512_bf16) GTEST_SKIP() << "this processor has no bf16 dot product";
  NEEDS_PACKED_BF16();
  for_each_problem([](const Problem& problem) {
    const auto bytes = problem.run(&dot_products::tile_gemm);
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < problem.m; ++i)
      for (std::int64_t j = 0; j < problem.n; ++j) {
        const float expected = chain(problem, i, j);
        const BFloat16 rounded = to_bfloat16(expected);
        const std::size_t size = problem.narrow ? sizeof rounded : sizeof expected;
        const void* const other = problem.narrow ? static_cast<const void*>(&rounded) : &expected;
        if (std::memcmp(bytes.data() + static_cast<std::size_t>(i * problem.n + j) * size, other, size) != 0) ++different;
      }
    EXPECT_EQ(different, 0);
  });
}

}  // namespace
}  // namespace millrace::kernels::cpu
