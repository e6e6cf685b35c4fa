#include "kernels/cpu/gemm/float_gemm_loops.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/packing.hpp"
#include "tests/kernels/fixture.hpp"

// The loops of fp32 products on the calling thread, compared bit by bit with the order of sums that their header states.
namespace millrace::kernels::cpu {
namespace {

using testing::Data;

enum class Right : std::uint8_t { plain, transposed, packed };

/// c = op(a) · op(b) [+ c] [+ addend], where rows in memory are longer than the operands.
struct Problem {
  std::int64_t m, n, k;
  DType operands = DType::f32;
  bool transpose_a = false;
  Right right = Right::plain;
  bool accumulate = false, addend = false, bias = false;

  [[nodiscard]] std::string name() const {
    return fmt::format("{} x {} x {}, {}{}{}{}{}{}", m, n, k, to_string(operands), transpose_a ? ", a transposed" : "",
                       right == Right::packed       ? ", b packed"
                       : right == Right::transposed ? ", b transposed"
                                                    : "",
                       accumulate ? ", accumulated" : "", addend ? ", with an addend" : "", bias ? ", with a bias" : "");
  }
};

/// Elements that follow each row in memory and belong to nobody.
constexpr std::int64_t kGap = 3;

/// The operands of a problem.
struct Operands {
  Problem problem;
  Data a, b, before, other;

  Operands(const Problem& of, std::uint64_t seed)
      : problem(of),
        a(of.operands, of.transpose_a ? Shape{of.k, of.m + kGap} : Shape{of.m, of.k + kGap}, seed),
        b(of.operands, of.right == Right::transposed ? Shape{of.n, of.k + kGap} : Shape{of.k, of.n + kGap}, seed + 1),
        before(DType::f32, {of.m, of.n + kGap}, seed + 2),
        other(DType::f32, {of.m, of.n + kGap}, seed + 3) {}

  /// op(a) and op(b)ᵀ in fp32, rows of k.
  [[nodiscard]] std::vector<float> rows_of_a() const {
    std::vector<float> rows;
    for (std::int64_t row = 0; row < problem.m; ++row)
      for (std::int64_t depth = 0; depth < problem.k; ++depth)
        rows.push_back(
            static_cast<float>(a.get(problem.transpose_a ? depth * (problem.m + kGap) + row : row * (problem.k + kGap) + depth)));
    return rows;
  }
  [[nodiscard]] std::vector<float> columns_of_b() const {
    const bool turned = problem.right == Right::transposed;
    std::vector<float> columns;
    for (std::int64_t column = 0; column < problem.n; ++column)
      for (std::int64_t depth = 0; depth < problem.k; ++depth)
        columns.push_back(static_cast<float>(b.get(turned ? column * (problem.k + kGap) + depth : depth * (problem.n + kGap) + column)));
    return columns;
  }
  [[nodiscard]] std::int64_t step_of_c() const { return problem.n + kGap; }

  /// Element (row, column) of c, whose row of a and column of b these are, in the order that the header states.
  [[nodiscard]] float element(std::int64_t row, std::int64_t column, const float* left, const float* right) const {
    const bool fuses = cpu_features().isa != Isa::baseline;
    const std::int64_t part = cpu_features().isa == Isa::avx512 ? 512 : 256, place = row * step_of_c() + column;
    float value = 0;
    for (std::int64_t begin = 0; begin < problem.k; begin += part) {
      float sum = 0;
      for (std::int64_t depth = begin; depth < std::min(begin + part, problem.k); ++depth)
        sum = fuses ? std::fmaf(left[depth], right[depth], sum) : left[depth] * right[depth] + sum;
      if (begin > 0) {
        value = sum + value;
        continue;
      }
      value = problem.accumulate ? sum + (*before).as<float>()[place] : sum;
      if (problem.addend || problem.bias) value += (*other).as<float>()[problem.bias ? column : place];
    }
    return value;
  }

  /// c as the loops compute it, rows of n + kGap.
  [[nodiscard]] Data product() const {
    Data c(DType::f32, {problem.m, step_of_c()});
    std::memcpy((*c).data, (*before).data, (*c).bytes());
    const Buffer memory(static_cast<std::size_t>(float_gemm_floats(problem.m)) * sizeof(float));
    Buffer packed(problem.right == Right::packed ? packed_bytes(problem.k, problem.n, DType::f32) : 0);
    const std::int64_t b_step = problem.right == Right::transposed ? problem.k + kGap : problem.n + kGap;
    FloatOperand right{(*b).data, problem.operands, b_step, problem.right == Right::transposed};
    if (problem.right == Right::packed) {
      const PackedMatrix matrix{
          .data = (*b).data, .dtype = problem.operands, .transpose = false, .rows = problem.k, .columns = problem.n, .step = b_step};
      pack_blocks(matrix, packed.data(), 0, matrix.blocks());
      right = {packed.data(), DType::f32, 0, false};
    }
    pick_float_gemm()({.m = problem.m,
                       .n = problem.n,
                       .k = problem.k,
                       .a = {(*a).data, problem.operands, problem.transpose_a ? problem.m + kGap : problem.k + kGap, problem.transpose_a},
                       .b = right,
                       .next_b = problem.right == Right::packed ? static_cast<const float*>(right.data) : nullptr,
                       .c = (*c).as<float>(),
                       .c_step = step_of_c(),
                       .accumulate = problem.accumulate,
                       .addend = problem.addend || problem.bias ? (*other).as<float>() : nullptr,
                       .addend_step = problem.bias ? 0 : step_of_c()},
                      reinterpret_cast<float*>(memory.data()));
    return c;
  }
};

/// Compares all elements of c, and what lies between its rows.
void expect_the_stated_bits(const Problem& problem, std::uint64_t seed) {
  const Operands operands(problem, seed);
  const Data c = operands.product();
  const std::vector<float> rows = operands.rows_of_a(), columns = operands.columns_of_b();
  for (std::int64_t row = 0; row < problem.m; ++row)
    for (std::int64_t column = 0; column < operands.step_of_c(); ++column) {
      const std::int64_t place = row * operands.step_of_c() + column;
      const float found = (*c).as<float>()[place];
      const float expected = column < problem.n ? operands.element(row, column, &rows[static_cast<std::size_t>(row * problem.k)],
                                                                   &columns[static_cast<std::size_t>(column * problem.k)])
                                                : (*operands.before).as<float>()[place];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(expected))
          << problem.name() << ": element " << row << ", " << column << " is " << found << ", expected " << expected;
    }
}

/// Whether packed operands of this dtype are those of these loops, which they are unless bf16 is multiplied in bf16.
bool packs_floats(DType dtype) { return packed_dtype(dtype) == DType::f32; }

TEST(FloatGemm, SumsInTheStatedOrder) {
  std::uint64_t seed = 1;
  // One element; blocks of 14, 6, 32, 16 and 8 that are whole, short by one and long by one; parts of the depth and of the rows.
  const std::int64_t sizes[][3] = {{1, 1, 1},    {14, 32, 8},  {13, 31, 7},   {15, 33, 9},     {6, 16, 256},  {7, 17, 257},
                                   {5, 8, 255},  {29, 65, 16}, {24, 96, 513}, {3, 40, 1030},   {379, 33, 20}, {241, 9, 20},
                                   {2, 200, 70}, {100, 1, 64}, {40, 64, 512}, {381, 40, 1025}, {245, 24, 520}};
  for (const auto& [m, n, k] : sizes)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool transpose_a : {false, true})
        for (const Right right : {Right::plain, Right::transposed, Right::packed}) {
          if (right == Right::packed && !packs_floats(dtype)) continue;
          const int form = static_cast<int>(++seed % 4);
          expect_the_stated_bits({.m = m,
                                  .n = n,
                                  .k = k,
                                  .operands = dtype,
                                  .transpose_a = transpose_a,
                                  .right = right,
                                  .accumulate = form == 1,
                                  .addend = form == 2,
                                  .bias = form == 3},
                                 7 * seed);
          if (HasFatalFailure()) return;
        }
}

TEST(FloatGemm, KeepsInfinitiesAndNotANumber) {
  Operands operands({.m = 15, .n = 33, .k = 20}, 5);
  (*operands.a).as<float>()[2 * (20 + kGap) + 4] = std::numeric_limits<float>::infinity();
  (*operands.a).as<float>()[14 * (20 + kGap) + 19] = std::numeric_limits<float>::quiet_NaN();
  const Data c = operands.product();
  for (std::int64_t column = 0; column < 33; ++column) {
    EXPECT_TRUE(std::isinf(c.get(2 * 36 + column))) << column;
    EXPECT_TRUE(std::isnan(c.get(14 * 36 + column))) << column;
    EXPECT_TRUE(std::isfinite(c.get(3 * 36 + column))) << column;
  }
}

// What follows the operands in memory is not read, or not added: neighbours that are not numbers leave no trace.
TEST(FloatGemm, IgnoresWhatSurroundsItsOperands) {
  for (const bool transpose_a : {false, true})
    for (const Right right : {Right::plain, Right::transposed}) {
      Operands operands({.m = 17, .n = 35, .k = 21, .transpose_a = transpose_a, .right = right}, 9);
      const Data clean = operands.product();
      const auto spoil = [](const Data& data, std::int64_t used) {
        const std::int64_t rows = (*data).shape[0], step = (*data).shape[1];
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = used; i < step; ++i) (*data).as<float>()[row * step + i] = std::numeric_limits<float>::quiet_NaN();
      };
      spoil(operands.a, transpose_a ? 17 : 21);
      spoil(operands.b, right == Right::transposed ? 21 : 35);
      EXPECT_TRUE(same_bits(operands.product(), clean));
    }
}

}  // namespace
}  // namespace millrace::kernels::cpu
