#include "kernels/grouped_matmul.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <span>

#include "kernels/packing.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::Interval;
using tests::roundings;

using Counts = std::vector<std::int64_t>;  // rows of each expert

std::int64_t total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

/// Only this expert's rows.
Counts alone(const Counts& counts, std::size_t expert) {
  Counts one(counts.size(), 0);
  one[expert] = counts[expert];
  return one;
}

void put_offsets(Data& offsets, const Counts& counts) {
  std::int64_t end = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) offsets.set(static_cast<std::int64_t>(e) + 1, static_cast<double>(end += counts[e]));
}

Data offsets_of(const Counts& counts) {
  Data offsets(DType::i32, {static_cast<std::int64_t>(counts.size()) + 1});
  put_offsets(offsets, counts);
  return offsets;
}

/// The expert of each row, −1 behind the last group.
std::vector<std::int64_t> experts_of(const Counts& counts, std::int64_t rows) {
  std::vector<std::int64_t> experts;
  for (std::size_t e = 0; e < counts.size(); ++e)
    experts.insert(experts.end(), static_cast<std::size_t>(counts[e]), static_cast<std::int64_t>(e));
  experts.resize(static_cast<std::size_t>(rows), -1);
  return experts;
}

/// Counts as a router yields them: experts without rows, few rows, typically many, and now and then twice as many.
Counts random_counts(std::mt19937& random, std::size_t experts, std::int64_t typical) {
  Counts counts;
  for (std::size_t e = 0; e < experts; ++e) {
    const auto limit = static_cast<std::uint32_t>(typical);
    switch (random() % 5) {
      case 0:
        counts.push_back(0);
        break;
      case 1:
        counts.push_back(typical * (1 + random() % 2));
        break;
      case 2:
        counts.push_back(1 + random() % (3 * limit));
        break;
      default:
        counts.push_back(1 + random() % limit);
    }
  }
  return counts;
}

/// Scratch full of NaNs, which must reach no result. On a GPU these kernels need none.
Buffer filled_scratch(const ExecutionContext& context, std::size_t bytes) {
  Buffer scratch = scratch_of(context, bytes);
  if (context.host_readable()) std::fill_n(scratch.data(), bytes, std::byte{0xff});
  return scratch;
}

std::byte* row_of(const Data& matrix, std::int64_t row) {
  const auto bytes = static_cast<std::size_t>((*matrix).shape[1]) * size_of((*matrix).dtype);
  return (*matrix).data + static_cast<std::size_t>(row) * bytes;
}
std::size_t row_bytes(const Data& matrix) { return static_cast<std::size_t>((*matrix).shape[1]) * size_of((*matrix).dtype); }

/// A stack of weights and a bias, and products with them.
struct Experts {
  DType operands, result;
  std::int64_t experts, n, k;
  GroupedMatmulOptions options;
  Data b, bias;
  Buffer packed;

  Experts(DType operands_, DType result_, std::int64_t experts_, std::int64_t n_, std::int64_t k_, GroupedMatmulOptions options_)
      : operands(operands_),
        result(result_),
        experts(experts_),
        n(n_),
        k(k_),
        options(options_),
        b(operands, options.transpose_b ? Shape{experts, n, k} : Shape{experts, k, n}, 2),
        bias(DType::f32, {experts, n}, 4),
        packed(options.packed_b ? packed_bytes((*b).shape, options.transpose_b, operands) : 0) {
    ThreadTeam team(1);
    if (options.packed_b) pack(ExecutionContext(team), *b, options.transpose_b, packed.data());
  }

  /// b as the products read it.
  [[nodiscard]] Tensor right() const {
    Tensor tensor = *b;
    if (options.packed_b) tensor.data = packed.data();
    return tensor;
  }
  [[nodiscard]] std::size_t scratch_bytes(const Shape& a, const ExecutionContext& context) const {
    return grouped_matmul_scratch_bytes(a, (*b).shape, operands, result, options, context.processor());
  }
  /// c, whose elements were `previous` before.
  [[nodiscard]] Data run(const ExecutionContext& context, const Data& a, const Counts& counts, const Data& previous) const {
    Data c(previous);
    const Buffer scratch = filled_scratch(context, scratch_bytes((*a).shape, context));
    const Tensor added = *bias;
    grouped_matmul(context, *a, right(), *offsets_of(counts), *c, options, scratch.bytes(), options.bias ? &added : nullptr);
    wait();
    return c;
  }
  /// An element of c for a row of expert e: its value in double, within the error of k products and a bias in fp32.
  [[nodiscard]] Interval exact(const Data& a, std::int64_t e, std::int64_t row, std::int64_t column) const {
    double sum = options.bias ? bias.at(e * n + column) : 0, size = std::abs(sum);
    for (std::int64_t i = 0; i < k; ++i) {
      const double term = a.at(row * k + i) * b.at(e * n * k + (options.transpose_b ? column * k + i : i * n + column));
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(k) + 1) * size);
  }
};

const std::vector<std::pair<DType, DType>> dtypes{{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};

struct GroupedCase {
  std::int64_t n, k;
  Counts counts;
  std::int64_t behind;  // rows behind the last group
};

std::vector<GroupedMatmulOptions> all_options() {
  std::vector<GroupedMatmulOptions> list;
  for (int flags = 0; flags < 8; ++flags)
    if ((flags & 2) == 0 || (packs_operands() && !on_device()))
      list.push_back({.transpose_b = (flags & 1) != 0, .packed_b = (flags & 2) != 0, .bias = (flags & 4) != 0});
  return list;
}

TEST(GroupedMatmul, EveryRowIsMultipliedByItsExpertsMatrix) {
  const std::vector<GroupedCase> cases{
      {1, 1, {1}, 0},   {33, 17, {5, 0, 131}, 4}, {70, 40, {0, 0, 37, 0}, 0}, {16, 65, {1, 2, 66, 0, 33}, 1}, {65, 8, {0, 20, 7, 3}, 2},
      {5, 3, {0, 0}, 3}};
  for (const GroupedCase& at : cases)
    for (const auto& [operands, result] : dtypes)
      for (const GroupedMatmulOptions& options : all_options()) {
        SCOPED_TRACE(::testing::Message() << to_string(operands) << " to " << to_string(result) << ", n " << at.n << ", transpose "
                                          << options.transpose_b << ", packed " << options.packed_b << ", bias " << options.bias);
        const Experts product(operands, result, static_cast<std::int64_t>(at.counts.size()), at.n, at.k, options);
        const std::int64_t rows = total(at.counts) + at.behind;
        const Data a(operands, {rows, at.k}, 1), previous(result, {rows, at.n}, 3);
        const auto experts = experts_of(at.counts, rows);
        ThreadTeam one(1);
        const Data found = product.run(fast(one), a, at.counts, previous);
        const Data expected = product.run(ExecutionContext(one, Implementation::reference), a, at.counts, previous);
        for (const Data* c : {&found, &expected})
          EXPECT_TRUE(lies_within(*c, [&](std::int64_t i) {
            const std::int64_t expert = experts[static_cast<std::size_t>(i / at.n)];
            return expert < 0 ? around(previous.at(i), 0) : product.exact(a, expert, i / at.n, i % at.n);
          }));
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          EXPECT_TRUE(same_bits(product.run(fast(team), a, at.counts, previous), found)) << threads;
        }
      }
}

/// Multiplies many seeded batches, whose rows are taken from a small pool, and compares every row with the one that its expert yields for
/// the same row alone. `typical`: rows that an expert gets (random_counts).
void expect_rows_as_if_alone(const Experts& product, std::int64_t typical, int batches, std::uint32_t seed) {
  constexpr std::int64_t pool = 24;
  ThreadTeam one(1), two(2), three(3);
  const std::array<ThreadTeam*, 3> teams{&one, &two, &three};
  const Data lines(product.operands, {pool, product.k}, 7);
  std::vector<Data> expected;  // by expert
  for (std::int64_t e = 0; e < product.experts; ++e) {
    Data& rows = expected.emplace_back(product.result, Shape{pool, product.n});
    const Data line(product.operands, {1, product.k}), nothing(product.result, {1, product.n});
    Counts count(static_cast<std::size_t>(product.experts), 0);
    count[static_cast<std::size_t>(e)] = 1;
    for (std::int64_t i = 0; i < pool; ++i) {
      std::memcpy(row_of(line, 0), row_of(lines, i), row_bytes(lines));
      const Data c = product.run(fast(one), line, count, nothing);
      std::memcpy(row_of(rows, i), row_of(c, 0), row_bytes(c));
    }
  }
  std::mt19937 random(seed);
  for (int batch = 0; batch < batches; ++batch) {
    const Counts counts = random_counts(random, static_cast<std::size_t>(product.experts), typical);
    const std::int64_t rows = total(counts) + random() % 3;
    const auto experts = experts_of(counts, rows);
    const Data a(product.operands, {rows, product.k}), previous(product.result, {rows, product.n}, 3);
    std::vector<std::int64_t> lines_of_rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      lines_of_rows.push_back(random() % pool);
      std::memcpy(row_of(a, row), row_of(lines, lines_of_rows.back()), row_bytes(a));
    }
    for (ThreadTeam* team : teams) {
      const Data c = product.run(fast(*team), a, counts, previous);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = static_cast<std::size_t>(row);
        const std::byte* alone =
            experts[at] < 0 ? row_of(previous, row) : row_of(expected[static_cast<std::size_t>(experts[at])], lines_of_rows[at]);
        ASSERT_EQ(std::memcmp(row_of(c, row), alone, row_bytes(c)), 0)
            << "batch " << batch << ", row " << row << ", expert " << experts[at] << ", threads " << team->size();
      }
    }
  }
}

TEST(GroupedMatmul, ARowsBitsDependOnItsRowAndItsExpertAlone) {
  std::uint32_t seed = 1;
  for (const auto& [operands, result] : dtypes)
    for (const GroupedMatmulOptions& options : all_options()) {
      SCOPED_TRACE(::testing::Message() << to_string(operands) << " to " << to_string(result) << ", transpose " << options.transpose_b
                                        << ", packed " << options.packed_b << ", bias " << options.bias);
      expect_rows_as_if_alone(Experts(operands, result, 4, 70, 45, options), 16, on_device() ? 3 : 30, seed++);
    }
}

TEST(GroupedMatmul, ARowsBitsDoNotDependOnItsPlaceInALargeGroup) {
  std::uint32_t seed = 100;
  for (const std::int64_t typical : {7, 128})
    for (const auto& [operands, result] : dtypes)
      for (const bool packed : {false, true})
        if (!packed || (packs_operands() && !on_device())) {
          SCOPED_TRACE(::testing::Message() << to_string(operands) << " to " << to_string(result) << ", packed " << packed << ", tile "
                                            << typical);
          expect_rows_as_if_alone(Experts(operands, result, 3, 96, 130, {.transpose_b = true, .packed_b = packed}), typical,
                                  on_device() ? 1 : 8, seed++);
        }
}

// Sizes that tensor cores of a GPU take: groups that end everywhere in a tile, and last columns and terms that do not fill one.
const Counts ragged{0, 1, 63, 64, 65, 127, 129, 300};

TEST(GroupedMatmul, ATilesLastRowsColumnsAndTermsAreRight) {
  struct Sizes {
    std::int64_t n, k;
  };
  ThreadTeam team(2);
  const std::int64_t behind = 3, rows = total(ragged) + behind;
  const auto experts = experts_of(ragged, rows);
  for (const Sizes& at : {Sizes{264, 72}, {136, 200}})
    for (const bool transpose : {false, true}) {
      const Data a(DType::bf16, {rows, at.k}, 1);
      std::vector<Interval> exact;  // the same for both dtypes of results
      for (const DType result : {DType::bf16, DType::f32}) {
        SCOPED_TRACE(::testing::Message() << to_string(result) << ", n " << at.n << ", k " << at.k << ", transpose " << transpose);
        const Experts product(DType::bf16, result, static_cast<std::int64_t>(ragged.size()), at.n, at.k,
                              {.transpose_b = transpose, .bias = transpose == (at.n == 264)});
        const Data previous(result, {rows, at.n}, 3), found = product.run(fast(team), a, ragged, previous);
        for (std::int64_t i = 0; exact.size() < static_cast<std::size_t>(found.elements()); ++i) {
          const std::int64_t expert = experts[static_cast<std::size_t>(i / at.n)];
          exact.push_back(expert < 0 ? Interval{} : product.exact(a, expert, i / at.n, i % at.n));
        }
        EXPECT_TRUE(lies_within(found, [&](std::int64_t i) {
          return experts[static_cast<std::size_t>(i / at.n)] < 0 ? around(previous.at(i), 0) : exact[static_cast<std::size_t>(i)];
        }));
      }
    }
}

TEST(GroupedMatmul, ARowsBitsDoNotDependOnItsPlaceInATileOfTensorCores) {
  std::uint32_t seed = 200;
  for (const DType result : {DType::bf16, DType::f32})
    for (const bool transpose : {false, true})
      expect_rows_as_if_alone(Experts(DType::bf16, result, 3, 264, 72, {.transpose_b = transpose}), 128, 1, seed++);
}

/// Rows of activations and of gradients, and the gradients of a weight and of a bias from them.
struct Gradients {
  Data a, b, weight, bias;

  Gradients(const ExecutionContext& context, DType dtype, std::int64_t m, std::int64_t n, const Counts& counts, std::int64_t behind,
            const Data* rows_of_a = nullptr, const Data* rows_of_b = nullptr)
      : a(rows_of_a != nullptr ? *rows_of_a : Data(dtype, {total(counts) + behind, m}, 1)),
        b(rows_of_b != nullptr ? *rows_of_b : Data(dtype, {total(counts) + behind, n}, 2)),
        weight(DType::f32, {static_cast<std::int64_t>(counts.size()), m, n}, 3),
        bias(DType::f32, {static_cast<std::int64_t>(counts.size()), n}, 4) {
    const Buffer scratch =
        filled_scratch(context, grouped_weight_gradient_scratch_bytes((*a).shape, (*b).shape, dtype, context.processor()));
    const Data offsets = offsets_of(counts);
    grouped_weight_gradient(context, *a, *b, *offsets, *weight, scratch.bytes());
    grouped_bias_gradient(context, *b, *offsets, *bias);
    wait();
  }
};

TEST(GroupedMatmul, GradientsAreSumsOverTheRowsOfAGroup) {
  struct Sizes {
    std::int64_t m, n;
    Counts counts;
  };
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Sizes& at : {Sizes{1, 1, {1}}, {33, 17, {5, 0, 131}}, {70, 40, {0, 0, 37, 0}}, {300, 9, {128, 1, 64, 0, 257}}}) {
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << " " << at.m << " x " << at.n);
      const auto experts = static_cast<std::int64_t>(at.counts.size());
      const Data weight(DType::f32, {experts, at.m, at.n}, 3), bias(DType::f32, {experts, at.n}, 4);  // the previous values
      ThreadTeam one(1);
      const Gradients found(fast(one), dtype, at.m, at.n, at.counts, 3);
      const Gradients expected(ExecutionContext(one, Implementation::reference), dtype, at.m, at.n, at.counts, 3);
      for (const Gradients* each : {&found, &expected}) {
        const auto sum = [&](std::int64_t e, double previous, auto&& term) {
          double value = previous, size = std::abs(previous);
          const std::int64_t begin = std::accumulate(at.counts.begin(), at.counts.begin() + e, std::int64_t{0});
          for (std::int64_t row = begin; row < begin + at.counts[static_cast<std::size_t>(e)]; ++row) {
            value += term(row);
            size += std::abs(term(row));
          }
          // As many additions as rows, one of the previous value, and those of whole sums to it.
          return around(value, roundings(static_cast<double>(at.counts[static_cast<std::size_t>(e)]) + 3) * size);
        };
        EXPECT_TRUE(lies_within(each->weight, [&](std::int64_t i) {
          const std::int64_t e = i / (at.m * at.n), row = i / at.n % at.m, column = i % at.n;
          return sum(e, weight.at(i), [&](std::int64_t r) { return each->a.at(r * at.m + row) * each->b.at(r * at.n + column); });
        }));
        EXPECT_TRUE(lies_within(each->bias, [&](std::int64_t i) {
          return sum(i / at.n, bias.at(i), [&](std::int64_t r) { return each->b.at(r * at.n + i % at.n); });
        }));
      }
      for (const int threads : {2, 3}) {
        ThreadTeam team(threads);
        const Gradients many(fast(team), dtype, at.m, at.n, at.counts, 3);
        EXPECT_TRUE(same_bits(found.weight, many.weight));
        EXPECT_TRUE(same_bits(found.bias, many.bias));
      }
    }
}

/// The bytes of expert e in a tensor whose first axis is that of experts.
std::span<const std::byte> expert_of(const Data& stack, std::int64_t e) {
  const std::size_t bytes = (*stack).bytes() / static_cast<std::size_t>((*stack).shape[0]);
  return {(*stack).data + static_cast<std::size_t>(e) * bytes, bytes};
}

TEST(GroupedMatmul, AnExpertsGradientDoesNotDependOnOtherExperts) {
  ThreadTeam one(1), two(2), three(3);
  std::mt19937 random(5);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (int batch = 0; batch < (on_device() ? 3 : 40); ++batch) {
      const std::int64_t m = batch % 2 == 0 ? 40 : 290, n = batch % 3 == 2 ? 264 : 33;
      const Counts counts = random_counts(random, 4, 64);
      const Data a(dtype, {total(counts), m}, 1), b(dtype, {total(counts), n}, 2);
      const Gradients all(fast(one), dtype, m, n, counts, 0, &a, &b);
      std::int64_t begin = 0;
      for (std::int64_t e = 0; e < 4; ++e) {
        const std::int64_t rows = counts[static_cast<std::size_t>(e)];
        const Data own_a(dtype, {rows, m}), own_b(dtype, {rows, n});
        if (rows > 0) {
          std::memcpy((*own_a).data, row_of(a, begin), (*own_a).bytes());
          std::memcpy((*own_b).data, row_of(b, begin), (*own_b).bytes());
        }
        begin += rows;
        const Gradients single(fast(batch % 2 == 0 ? two : three), dtype, m, n, alone(counts, static_cast<std::size_t>(e)), 0, &own_a,
                               &own_b);
        for (const auto& [found, expected] : {std::pair{&all.weight, &single.weight}, {&all.bias, &single.bias}}) {
          const auto x = expert_of(*found, e), y = expert_of(*expected, e);
          EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin())) << "batch " << batch << ", expert " << e;
        }
      }
    }
}

/// Some rows of a matrix.
Data rows_of(const Data& matrix, std::int64_t begin, std::int64_t rows) {
  const Data part((*matrix).dtype, {rows, (*matrix).shape[1]});
  if (rows > 0) std::memcpy((*part).data, row_of(matrix, begin), (*part).bytes());
  return part;
}

const auto kImplementations = {Implementation::fast, Implementation::reference};

// Groups of three sources, arranged by source: each source's rows have the bits of a call for this source alone.
TEST(GroupedMatmul, RowsOfSeveralSourcesHaveTheBitsOfACallForEach) {
  ThreadTeam one(1), three(3);
  std::mt19937 random(11);
  const std::int64_t experts = 4, sources = 3;
  for (const auto& [operands, result] : dtypes)
    for (const GroupedMatmulOptions& options : all_options())
      for (const Implementation implementation : kImplementations) {
        const Experts product(operands, result, experts, random() % 2 == 0 ? 70 : 264, random() % 2 == 0 ? 45 : 72, options);
        const Counts counts = random_counts(random, static_cast<std::size_t>(sources * experts), 16);
        const std::int64_t rows = total(counts) + 2;
        const Data a(operands, {rows, product.k}, 1), previous(result, {rows, product.n}, 3);
        const Data found = product.run(stream_of(three, implementation), a, counts, previous);
        std::int64_t begin = 0;
        for (std::int64_t source = 0; source < sources; ++source) {
          const Counts own(counts.begin() + source * experts, counts.begin() + (source + 1) * experts);
          const Data expected =
              product.run(stream_of(one, implementation), rows_of(a, begin, total(own)), own, rows_of(previous, begin, total(own)));
          EXPECT_TRUE(same_bits(rows_of(found, begin, total(own)), expected)) << to_string(operands) << ", source " << source;
          begin += total(own);
        }
        EXPECT_TRUE(same_bits(rows_of(found, begin, 2), rows_of(previous, begin, 2)));
      }
}

// An owner adds the rows of all members' microbatches as one rank adds those of one microbatch after the other.
TEST(GroupedMatmul, GradientsOfSeveralSourcesHaveTheBitsOfACallForEach) {
  ThreadTeam one(1), three(3);
  std::mt19937 random(12);
  const std::int64_t experts = 4, sources = 3;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Implementation implementation : kImplementations)
      for (int batch = 0; batch < (on_device() ? 3 : 8); ++batch) {
        const std::int64_t m = batch % 2 == 0 ? 40 : 290, n = batch % 3 == 2 ? 264 : 33;
        const Counts counts = random_counts(random, static_cast<std::size_t>(sources * experts), 150);
        const Data a(dtype, {total(counts) + 2, m}, 1), b(dtype, {total(counts) + 2, n}, 2);
        Data weight(DType::f32, {experts, m, n}, 3), bias(DType::f32, {experts, n}, 4);
        Data expected_weight(weight), expected_bias(bias);
        const auto add = [&](const ExecutionContext& context, const Data& left, const Data& right, const Counts& of, Data& to,
                             Data& to_bias) {
          const Buffer scratch =
              filled_scratch(context, grouped_weight_gradient_scratch_bytes((*left).shape, (*right).shape, dtype, context.processor()));
          const Data offsets = offsets_of(of);
          grouped_weight_gradient(context, *left, *right, *offsets, *to, scratch.bytes());
          grouped_bias_gradient(context, *right, *offsets, *to_bias);
          wait();
        };
        add(stream_of(three, implementation), a, b, counts, weight, bias);
        std::int64_t begin = 0;
        for (std::int64_t source = 0; source < sources; ++source) {
          const Counts own(counts.begin() + source * experts, counts.begin() + (source + 1) * experts);
          add(stream_of(one, implementation), rows_of(a, begin, total(own)), rows_of(b, begin, total(own)), own, expected_weight,
              expected_bias);
          begin += total(own);
        }
        EXPECT_TRUE(same_bits(weight, expected_weight)) << to_string(dtype) << " " << m << " x " << n;
        EXPECT_TRUE(same_bits(bias, expected_bias)) << to_string(dtype) << " " << n;
      }
}

// Rows that are added by two calls give the bits of one call if the first adds whole runs.
TEST(GroupedMatmul, AGradientIsAddedInRunsOf128Rows) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(1);
  const Data a(DType::f32, {200, 40}, 1), b(DType::f32, {200, 33}, 2);
  const auto sum = [&](std::int64_t first) {
    Data weight(DType::f32, {1, 40, 33}, 3);
    const Buffer scratch = filled_scratch(fast(team), grouped_weight_gradient_scratch_bytes((*a).shape, (*b).shape, DType::f32, 1));
    const auto add = [&](std::int64_t begin, std::int64_t rows) {
      grouped_weight_gradient(fast(team), make_tensor(row_of(a, begin), DType::f32, {rows, 40}),
                              make_tensor(row_of(b, begin), DType::f32, {rows, 33}), *offsets_of({rows}), *weight, scratch.bytes());
    };
    add(0, first);
    add(first, 200 - first);
    return weight;
  };
  EXPECT_TRUE(same_bits(sum(200), sum(128)));
  EXPECT_FALSE(same_bits(sum(200), sum(64)));
}

TEST(GroupedMatmul, AGroupWithoutRowsLeavesItsGradientAsItIs) {
  ThreadTeam team(1);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    const Data a(DType::f32, {2, 3}, 1), b(DType::f32, {2, 5}, 2), offsets = offsets_of({2, 0});
    Data weight(DType::f32, {2, 3, 5}), bias(DType::f32, {2, 5});
    for (std::int64_t i = 0; i < 15; ++i) weight.set(15 + i, -0.0);  // which an addition of zero would change
    for (std::int64_t i = 0; i < 5; ++i) bias.set(5 + i, -0.0);
    const Data weight_before(weight), bias_before(bias);
    const Buffer scratch =
        scratch_of(context, grouped_weight_gradient_scratch_bytes((*a).shape, (*b).shape, DType::f32, context.processor()));
    grouped_weight_gradient(context, *a, *b, *offsets, *weight, scratch.bytes());
    grouped_bias_gradient(context, *b, *offsets, *bias);
    wait();
    for (const auto& [now, before] : {std::pair{&weight, &weight_before}, {&bias, &bias_before}}) {
      const auto x = expert_of(*now, 1), y = expert_of(*before, 1), other = expert_of(*now, 0), zeros = expert_of(*before, 0);
      EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin()));
      EXPECT_FALSE(std::equal(other.begin(), other.end(), zeros.begin()));
    }
  }
}

// A NaN in rows that belong to nobody, or in another group, reaches no result: they are not even multiplied by zero.
TEST(GroupedMatmul, RowsOfNobodyAreNotRead) {
  ThreadTeam team(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Data a(dtype, {9, 20}, 1), b(dtype, {9, 24}, 2);
    for (std::int64_t i = 7 * 20; i < 9 * 20; ++i) a.set(i, nan);
    for (std::int64_t i = 7 * 24; i < 9 * 24; ++i) b.set(i, nan);
    const Experts product(dtype, DType::f32, 2, 24, 20, {});
    const Data c = product.run(fast(team), a, {3, 4}, Data(DType::f32, {9, 24}));
    for (std::int64_t i = 0; i < c.elements(); ++i) ASSERT_TRUE(std::isfinite(c.get(i))) << i;
    const Gradients gradients(fast(team), dtype, 20, 24, {3, 4}, 0, &a, &b);
    for (const Data* each : {&gradients.weight, &gradients.bias})
      for (std::int64_t i = 0; i < each->elements(); ++i) ASSERT_TRUE(std::isfinite(each->get(i))) << i;
  }
}

// A tile of rows that begins in a group contains the first rows of the next one, which must not reach the group's gradient.
TEST(GroupedMatmul, RowsOfTheNextGroupReachNoGradient) {
  ThreadTeam team(2);
  const std::int64_t m = 72, n = 264, behind = 3, rows = total(ragged) + behind;
  const auto experts = experts_of(ragged, rows);
  Data a(DType::bf16, {rows, m}, 1), b(DType::bf16, {rows, n}, 2);
  const auto spoiled = [](std::int64_t expert) { return expert < 0 || expert % 2 == 0; };
  for (std::int64_t row = 0; row < rows; ++row)
    if (spoiled(experts[static_cast<std::size_t>(row)])) {
      for (std::int64_t i = 0; i < m; ++i) a.set(row * m + i, std::numeric_limits<double>::quiet_NaN());
      for (std::int64_t i = 0; i < n; ++i) b.set(row * n + i, std::numeric_limits<double>::infinity());
    }
  const Data before(DType::f32, {static_cast<std::int64_t>(ragged.size()), m, n}, 3);
  const Gradients found(fast(team), DType::bf16, m, n, ragged, behind, &a, &b);
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(ragged.size()); ++e) {
    const std::int64_t end = begin + ragged[static_cast<std::size_t>(e)];
    for (std::int64_t i = e * m * n; i < (e + 1) * m * n; ++i) {
      if (spoiled(e) && begin < end) continue;
      double sum = before.at(i), size = std::abs(sum);
      for (std::int64_t row = begin; row < end; ++row) {
        const double term = a.at(row * m + i / n % m) * b.at(row * n + i % n);
        sum += term;
        size += std::abs(term);
      }
      const Interval expected = around(sum, begin == end ? 0 : roundings(static_cast<double>(end - begin) + 3) * size);
      ASSERT_TRUE(expected.low <= found.weight.at(i) && found.weight.at(i) <= expected.high)
          << "expert " << e << ", element " << i % (m * n) << " is " << found.weight.at(i) << ", expected " << sum;
    }
    begin = end;
  }
}

TEST(GroupedMatmul, AllocatesNothingLargeWhateverTheCounts) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  std::mt19937 random(3);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool packed : {false, true}) {
      const Experts product(dtype, dtype, 4, 96, 130, {.transpose_b = true, .packed_b = packed});
      const Data a(dtype, {1000, 130}, 1), b(dtype, {1000, 96}, 2), c(dtype, {1000, 96}), weight(DType::f32, {4, 96, 130}),
          bias(DType::f32, {4, 96});
      const Buffer scratch(product.scratch_bytes((*a).shape, context)),
          more(grouped_weight_gradient_scratch_bytes((*b).shape, (*a).shape, dtype, 2));
      Data offsets = offsets_of({0, 0, 1, 0});
      const auto run = [&] {
        grouped_matmul(context, *a, product.right(), *offsets, *c, product.options, scratch.bytes());
        grouped_weight_gradient(context, *b, *a, *offsets, *weight, more.bytes());
        grouped_bias_gradient(context, *b, *offsets, *bias);
      };
      run();
      for (int batch = 0; batch < 20; ++batch) {
        put_offsets(offsets, random_counts(random, 4, 80));
        const auto before = large_allocations();
        run();
        ASSERT_EQ(large_allocations(), before) << batch;
      }
    }
}

TEST(GroupedMatmul, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const int internal = static_cast<int>(ExitCode::internal);
  const Data a(DType::f32, {6, 3}, 1), b(DType::f32, {2, 3, 5}, 2), c(DType::f32, {6, 5}), weight(DType::f32, {2, 3, 5});
  const Data bias(DType::f32, {2, 5}), narrow(DType::bf16, {6, 5}), flat(DType::f32, {6, 15}), empty(DType::f32, {2, 0, 5});
  const Data good = offsets_of({2, 4}), more = offsets_of({2, 2, 2}), floats(DType::f32, {3});
  const Tensor added = *bias, wrong = *c;
  const Buffer scratch = scratch_of(context, 1 << 22);
  const auto product = [&](const Data& left, const Data& right, const Data& offsets, const Data& out, GroupedMatmulOptions options = {},
                           const Tensor* other = nullptr) {
    return thrown([&] { grouped_matmul(context, *left, *right, *offsets, *out, options, scratch.bytes(), other); });
  };
  EXPECT_EQ(product(a, b, good, c), -1);
  EXPECT_EQ(product(a, b, good, c, {.bias = true}, &added), -1);
  EXPECT_EQ(product(a, b, good, c, {.transpose_b = true}), internal);
  EXPECT_EQ(product(a, flat, good, c), internal);
  EXPECT_EQ(product(a, b, more, c), internal);
  EXPECT_EQ(product(a, b, offsets_of({2, 1, 0, 3}), c), -1);  // of two sources
  EXPECT_EQ(product(a, b, offsets_of({2, 1, 0, 4}), c), internal);
  EXPECT_EQ(product(a, b, offsets_of({}), c), internal);
  EXPECT_EQ(product(a, b, floats, c), internal);
  EXPECT_EQ(product(a, b, good, narrow), internal);
  EXPECT_EQ(product(a, b, good, flat), internal);
  EXPECT_EQ(product(a, empty, good, c), internal);
  EXPECT_EQ(product(a, b, good, c, {.bias = true}), internal);
  EXPECT_EQ(product(a, b, good, c, {}, &added), internal);
  EXPECT_EQ(product(a, b, good, c, {.bias = true}, &wrong), internal);
  const auto gradient = [&](const Data& left, const Data& right, const Data& offsets, const Data& out) {
    return thrown([&] { grouped_weight_gradient(context, *left, *right, *offsets, *out, scratch.bytes()); });
  };
  EXPECT_EQ(gradient(a, c, good, weight), -1);
  EXPECT_EQ(gradient(c, a, good, weight), internal);
  EXPECT_EQ(gradient(a, narrow, good, weight), internal);
  EXPECT_EQ(gradient(a, c, more, weight), internal);
  EXPECT_EQ(gradient(a, c, good, bias), internal);
  EXPECT_EQ(thrown([&] { grouped_bias_gradient(context, *c, *good, *bias); }), -1);
  EXPECT_EQ(thrown([&] { grouped_bias_gradient(context, *a, *good, *bias); }), internal);
  EXPECT_EQ(thrown([&] { grouped_bias_gradient(context, *c, *more, *bias); }), internal);
  if (!on_device()) {
    EXPECT_EQ(thrown([&] { grouped_matmul(context, *a, *b, *good, *c, {}, {}); }), internal);
    EXPECT_EQ(thrown([&] { grouped_weight_gradient(context, *a, *c, *good, *weight, {}); }), internal);
  }
}

// On a GPU the kernels report them, and read nothing that is not there.
TEST(GroupedMatmul, RefusesOffsetsOfNoGroups) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const int internal = static_cast<int>(ExitCode::internal);
  const Data a(DType::f32, {6, 3}, 1), b(DType::f32, {2, 3, 1}, 2), c(DType::f32, {6, 1}), weight(DType::f32, {2, 3, 1}),
      bias(DType::f32, {2, 1});
  const Buffer scratch = scratch_of(context, 1 << 22);
  for (const auto& numbers : {std::array{0, 2, 7}, {0, 4, 2}, {1, 2, 6}, {0, 7, 6}, {-1, 2, 6}, {0, -1, 6}}) {
    Data offsets(DType::i32, {3});
    for (std::int64_t i = 0; i < 3; ++i) offsets.set(i, numbers[static_cast<std::size_t>(i)]);
    EXPECT_EQ(thrown([&] { grouped_matmul(context, *a, *b, *offsets, *c, {}, scratch.bytes()); }), internal);
    EXPECT_EQ(thrown([&] { grouped_weight_gradient(context, *a, *c, *offsets, *weight, scratch.bytes()); }), internal);
    EXPECT_EQ(thrown([&] { grouped_bias_gradient(context, *c, *offsets, *bias); }), internal);
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
