#include "kernels/matmul.hpp"

#include "kernels/packing.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::as_fp32;
using testing::Data;
using testing::fast;
using testing::lies_within;
using testing::magnitudes;
using testing::scratch_of;
using testing::stream_of;
using tests::roundings;

struct ProductCase {
  std::int64_t m, n, k;
};

void PrintTo(const ProductCase& c, std::ostream* out) { *out << c.m << "x" << c.n << "x" << c.k; }

/// One configuration of a product (dtypes, flags, sizes), run by either implementation.
struct Product {
  DType operands, result;
  MatmulOptions options;
  Data a, b, c, addend;

  Product(ProductCase size, DType operands_, DType result_, MatmulOptions options_)
      : operands(operands_),
        result(result_),
        options(options_),
        a(operands, options.transpose_a ? Shape{size.k, size.m} : Shape{size.m, size.k}, 1),
        b(operands, options.transpose_b ? Shape{size.n, size.k} : Shape{size.k, size.n}, 2),
        c(result, {size.m, size.n}, 3),
        addend(options.bias ? DType::f32 : result, options.bias ? Shape{size.n} : Shape{size.m, size.n}, 4) {}

  [[nodiscard]] Data run(ThreadTeam& team, Implementation implementation = Implementation::fast) const {
    Data out(c);
    const ExecutionContext context = stream_of(team, implementation);
    const Buffer scratch =
        scratch_of(context, matmul_scratch_bytes((*a).shape, (*b).shape, operands, result, options, context.processor()));
    Tensor right = *b;
    const Buffer packed(options.packed_b ? packed_bytes((*a).shape[options.transpose_a ? 0 : 1], (*c).shape[1], operands) : 0);
    if (options.packed_b) {
      pack(context, *b, options.transpose_b, packed.data());
      right.data = packed.data();
    }
    const Tensor added = *addend;
    matmul(context, *a, right, *out, options, scratch.bytes(), options.addend ? &added : nullptr);
    return out;
  }
};

/// The product before it is stored, and the sum of the magnitudes of its terms: the reference's sums in double, of fp32 operands.
struct ProductTruth {
  Data value, size;

  explicit ProductTruth(const Product& product) : value(of(product, as_fp32)), size(of(product, magnitudes)) {}
  /// Whether a result is within the rounding errors of a sum of K products, the addend and the previous value.
  [[nodiscard]] ::testing::AssertionResult holds(const Data& found, std::int64_t k) const {
    return lies_within(found, value, roundings(static_cast<double>(k) + 2), size);
  }

 private:
  static Data of(const Product& product, Data (*operand)(const Data&)) {
    MatmulOptions options = product.options;
    options.packed_b = false;
    const Data a = operand(product.a), b = operand(product.b), addend = operand(product.addend);
    const Data out = operand(product.c);
    ThreadTeam team(1);
    const Tensor added = *addend;
    matmul(ExecutionContext(team, Implementation::reference), *a, *b, *out, options, {}, options.addend ? &added : nullptr);
    return out;
  }
};

class MatmulEquivalentToReference : public ::testing::TestWithParam<ProductCase> {};

TEST_P(MatmulEquivalentToReference, OverFlagsDtypesAndThreads) {
  const ProductCase size = GetParam();
  ThreadTeam one(1), two(2), three(3);
  for (int flags = 0; flags < 64; ++flags)
    for (const auto& [operands, result] : {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}}) {
      const MatmulOptions options{(flags & 1) != 0, (flags & 2) != 0,  (flags & 4) != 0,
                                  (flags & 8) != 0, (flags & 16) != 0, (flags & 32) != 0};
      if (options.accumulate && (result != DType::f32 || options.addend)) continue;
      if (options.bias && !options.addend) continue;
      if (options.packed_b && !packs_operands(fast(one).device())) continue;
      const Product product(size, operands, result, options);
      const ProductTruth truth(product);
      for (ThreadTeam* team : {&one, &two, &three}) {
        SCOPED_TRACE(::testing::Message() << "flags " << flags << ", " << to_string(operands) << " to " << to_string(result) << ", threads "
                                          << team->size());
        const Data found = product.run(*team);
        if (testing::on_device() && options.bias && result == DType::bf16)
          // If cuBLASLt supports no bias for these types, it is added after the product was rounded.
          EXPECT_TRUE(lies_within(found, truth.value, tests::bf16_roundoff + roundings(static_cast<double>(size.k) + 2), truth.size));
        else
          EXPECT_TRUE(truth.holds(found, size.k));
        EXPECT_TRUE(same_bits(found, product.run(*team)));
      }
      if (size.k < 40) {
        EXPECT_TRUE(truth.holds(product.run(one, Implementation::reference), size.k));
      }
    }
}

// Both are compared with sums that are computed here.
TEST(Matmul, TheReferenceMultipliesAsItIsDefined) {
  constexpr ProductCase size{3, 5, 4};
  ThreadTeam team(1);
  for (int flags = 0; flags < 32; ++flags) {
    const MatmulOptions options{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, false, (flags & 8) != 0, (flags & 16) != 0};
    if ((options.accumulate && options.addend) || (options.bias && !options.addend)) continue;
    const Product product(size, DType::f32, DType::f32, options);
    EXPECT_TRUE(lies_within(product.run(team, Implementation::reference), [&](std::int64_t i) {
      const std::int64_t row = i / size.n, column = i % size.n;
      double sum = options.accumulate ? product.c.get(i) : 0;
      if (options.addend) sum += product.addend.get(options.bias ? column : i);
      for (std::int64_t j = 0; j < size.k; ++j)
        sum += product.a.get(options.transpose_a ? j * size.m + row : row * size.k + j) *
               product.b.get(options.transpose_b ? column * size.k + j : j * size.n + column);
      return tests::around(sum, 1e-15);  // doubles of a few terms, added in another order
    })) << flags;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulEquivalentToReference,
                         ::testing::Values(ProductCase{1, 1, 1}, ProductCase{1, 67, 43}, ProductCase{2, 96, 17}, ProductCase{37, 1, 29},
                                           ProductCase{64, 64, 64}, ProductCase{97, 43, 1}, ProductCase{149, 43, 61},
                                           ProductCase{16, 33, 131}, ProductCase{300, 130, 37}, ProductCase{601, 21, 30},
                                           ProductCase{19, 200, 48}));

// Products in fp32 are cut into up to 378 rows and a depth of 512; their bits do not depend on the number of threads.
TEST(Matmul, MultipliesMoreThanOnePartOfEachAxis) {
  constexpr ProductCase size{390, 331, 600};
  for (const MatmulOptions& options :
       {MatmulOptions{.transpose_b = true, .addend = true}, MatmulOptions{.transpose_b = true, .addend = true, .bias = true},
        MatmulOptions{.accumulate = true}, MatmulOptions{.transpose_a = true, .accumulate = true}}) {
    const Product product(size, DType::f32, DType::f32, options);
    const ProductTruth truth(product);
    ThreadTeam one(1);
    const Data found = product.run(one);
    EXPECT_TRUE(truth.holds(found, size.k));
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      const Data other = product.run(team);
      EXPECT_TRUE(truth.holds(other, size.k));
      if (!testing::on_device()) {
        EXPECT_TRUE(same_bits(found, other)) << threads << " threads";
      }
    }
  }
}

TEST(Matmul, AccumulatesIntoWhatIsThere) {
  ThreadTeam team(2);
  const Product plain({33, 20, 7}, DType::f32, DType::f32, {});
  const Product added({33, 20, 7}, DType::f32, DType::f32, {.accumulate = true});
  EXPECT_TRUE(ProductTruth(added).holds(added.run(team), 7));
  const Data product = plain.run(team), sum = added.run(team);
  // A product of seven terms of up to 1, and a previous value of up to 1.
  for (std::int64_t i = 0; i < sum.elements(); ++i) EXPECT_NEAR(sum.get(i), added.c.get(i) + product.get(i), roundings(9) * 8);
}

TEST(Matmul, TakesEmptyShapes) {
  ThreadTeam team(2);
  const Product no_rows({0, 5, 3}, DType::f32, DType::f32, {});
  EXPECT_EQ(no_rows.run(team).elements(), 0);
  const Product no_sum({4, 5, 0}, DType::f32, DType::f32, {});
  const Data zero = no_sum.run(team);
  for (std::int64_t i = 0; i < zero.elements(); ++i) EXPECT_EQ(zero.get(i), 0.0);
  const Product nothing_added({4, 5, 0}, DType::f32, DType::f32, {.accumulate = true});
  EXPECT_TRUE(same_bits(nothing_added.run(team), nothing_added.c));
}

TEST(Matmul, RunsSmallerCountsInTheScratchOfTheCapacity) {
  ThreadTeam team(2);
  for (const bool transpose : {false, true}) {
    const MatmulOptions options{.transpose_a = transpose};
    const Dimension bounded(300, 0);
    const Shape capacity = transpose ? Shape{bounded, 40} : Shape{bounded, 40};
    const Shape b_capacity = transpose ? Shape{bounded, 24} : Shape{40, 24};
    const ExecutionContext context = fast(team);
    const Buffer scratch =
        scratch_of(context, matmul_scratch_bytes(capacity, b_capacity, DType::bf16, DType::f32, options, context.processor()));
    for (const std::int64_t count : {1, 2, 7, 43, 150, 299, 300}) {
      const Product product(transpose ? ProductCase{40, 24, count} : ProductCase{count, 24, 40}, DType::bf16, DType::f32, options);
      Data out(product.c);
      matmul(context, *product.a, *product.b, *out, options, scratch.bytes());
      EXPECT_TRUE(ProductTruth(product).holds(out, transpose ? count : 40)) << count;
    }
  }
}

TEST(Matmul, AddsAWeightsGradientInStretchesOfAnyCount) {
  ThreadTeam team(2);
  for (const auto& [dtype, accumulate] : {std::pair{DType::f32, true}, {DType::bf16, true}, {DType::f32, false}, {DType::bf16, false}}) {
    const MatmulOptions options{.transpose_a = true, .accumulate = accumulate};
    const Shape a{Dimension(1100, 0), 70}, b{Dimension(1100, 0), 50};
    const ExecutionContext context = fast(team);
    const Buffer scratch = scratch_of(context, matmul_scratch_bytes(a, b, dtype, DType::f32, options, context.processor()));
    for (const std::int64_t count : {1, 511, 512, 513, 1023, 1024, 1060, 1100}) {
      const Product product({70, 50, count}, dtype, DType::f32, options);
      Data out(product.c);
      matmul(context, *product.a, *product.b, *out, options, scratch.bytes());
      EXPECT_TRUE(ProductTruth(product).holds(out, count)) << count;
    }
  }
}

TEST(Matmul, AddsAWeightsGradientInPartsOfManyRows) {
  const MatmulOptions options{.transpose_a = true, .accumulate = true};
  for (const int threads : {1, 2, 3})
    for (const std::int64_t rows : {255, 256, 257, 513, 790}) {
      ThreadTeam team(threads);
      const Product product({rows, 33, 530}, DType::f32, DType::f32, options);
      EXPECT_TRUE(ProductTruth(product).holds(product.run(team), 530)) << rows << " rows";
    }
}

TEST(Matmul, AllocatesNothingLargeOnceAShapeIsKnown) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const MatmulOptions options : {MatmulOptions{}, {.transpose_b = true}, {.transpose_a = true, .accumulate = true}}) {
      Product product({400, 96, 130}, dtype, DType::f32, options);
      const Buffer scratch(matmul_scratch_bytes((*product.a).shape, (*product.b).shape, dtype, DType::f32, options, team.size()));
      const ExecutionContext context = fast(team);
      matmul(context, *product.a, *product.b, *product.c, options, scratch.bytes());
      const auto before = testing::large_allocations();
      for (int i = 0; i < 5; ++i) matmul(context, *product.a, *product.b, *product.c, options, scratch.bytes());
      EXPECT_EQ(testing::large_allocations(), before);
    }
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Data a(DType::f32, {4, 3}), b(DType::f32, {3, 5}), narrow(DType::bf16, {4, 5}), c(DType::f32, {4, 5}), wrong(DType::f32, {5, 4});
  const Buffer scratch = scratch_of(context, 1 << 20);
  const int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *wrong, {}, scratch.bytes()); }), internal);
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {.transpose_b = true}, scratch.bytes()); }), internal);
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *narrow, {.accumulate = true}, scratch.bytes()); }), internal);
  if (matmul_scratch_bytes((*a).shape, (*b).shape, DType::f32, DType::f32, {}, context.processor()) > 0) {
    EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {}, {}); }), internal);
  }
}

TEST(Packing, RefusesMemoryThatLinesDoNotStartIn) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(1);
  const Data b(DType::f32, {16, 64}, 1);
  const Buffer packed(packed_bytes(16, 64, DType::f32) + kAlignment);
  EXPECT_NO_THROW(pack(fast(team), *b, false, packed.data()));
  EXPECT_THROW(pack(fast(team), *b, false, packed.data() + 4), Error);
}

TEST(Packing, PutsEveryElementInItsPlaceAndZerosBeside) {
  MILLRACE_CPU_ONLY();
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool transpose : {false, true})
        for (const auto& [k, n] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {16, 64}, {17, 65}, {48, 192}, {33, 130}, {7, 63}}) {
          const Data b(dtype, transpose ? Shape{n, k} : Shape{k, n}, 5);
          const DType kind = packed_dtype(dtype);
          const std::int64_t rows = packed_rows(k, kind), columns = (n + 63) / 64 * 64;
          const Buffer packed(packed_bytes(k, n, dtype));
          std::fill_n(packed.data(), packed.size(), std::byte{0x7f});
          pack(fast(team), *b, transpose, packed.data());
          const Data back(dtype, (*b).shape, 6);
          unpack(packed.data(), transpose, *back);
          EXPECT_TRUE(same_bits(back, b));
          std::vector<bool> seen(static_cast<std::size_t>(rows * columns), false);
          for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t column = 0; column < columns; ++column) {
              const auto place = static_cast<std::size_t>(packed_place(k, row, column, kind));
              ASSERT_LT(place, seen.size());
              ASSERT_FALSE(seen[place]);
              seen[place] = true;
              const double found = kind == DType::bf16 ? to_float(reinterpret_cast<const BFloat16*>(packed.data())[place])
                                                       : reinterpret_cast<const float*>(packed.data())[place];
              const double wanted = row < k && column < n ? b.get(transpose ? column * k + row : row * n + column) : 0.0;
              ASSERT_EQ(found, wanted) << row << ", " << column << " of " << k << " x " << n << ", transpose " << transpose;
            }
        }
  }
}

TEST(Packing, PacksAStackMatrixAfterMatrix) {
  MILLRACE_CPU_ONLY();
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool transpose : {false, true})
        for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 65}, {130, 33}, {64, 192}}) {
          const Data stack(dtype, {3, rows, columns}, 5);
          const std::size_t bytes = transpose ? packed_bytes(columns, rows, dtype) : packed_bytes(rows, columns, dtype);
          EXPECT_EQ(packed_bytes((*stack).shape, transpose, dtype), 3 * bytes);
          EXPECT_EQ(packed_bytes({rows, columns}, transpose, dtype), bytes);
          const Buffer packed(3 * bytes), matrix(bytes);
          pack(fast(team), *stack, transpose, packed.data());
          for (std::size_t e = 0; e < 3; ++e) {
            const std::size_t place = e * static_cast<std::size_t>(rows * columns) * size_of(dtype);
            pack(fast(team), make_tensor((*stack).data + place, dtype, {rows, columns}), transpose, matrix.data());
            EXPECT_EQ(std::memcmp(packed.data() + e * bytes, matrix.data(), bytes), 0) << e;
          }
          const Data back(dtype, (*stack).shape);
          unpack(packed.data(), transpose, *back);
          EXPECT_TRUE(same_bits(back, stack));
        }
    EXPECT_THROW(pack(fast(team), *Data(DType::f32, {2, 2, 2, 2}), false, Buffer(4096).data()), Error);
  }
}

// Few rows are shared among the threads in another way than many, and may need more memory.
TEST(Matmul, ScratchOfACapacityIsEnoughForEveryCount) {
  for (const DType operands : {DType::f32, DType::bf16})
    for (const DType result : {DType::f32, DType::bf16}) {
      if (operands == DType::f32 && result == DType::bf16) continue;
      for (const bool packed : {false, true})
        for (const std::int64_t n : {5, 300, 900})
          for (const int threads : {1, 2, 3}) {
            const MatmulOptions options{.packed_b = packed};
            const std::int64_t capacity = 1000, k = 40;
            const std::size_t planned = matmul_scratch_bytes({Dimension(capacity, 0), k}, {k, n}, operands, result, options, threads);
            for (std::int64_t count = 1; count <= capacity; ++count)
              ASSERT_LE(matmul_scratch_bytes({count, k}, {k, n}, operands, result, options, threads), planned)
                  << count << " x " << n << ", " << threads << " threads, packed " << packed;
          }
    }
}

}  // namespace
}  // namespace millrace::kernels
