#include "kernels/head_parts.hpp"

#include <memory>
#include <string>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

struct Sizes {
  std::int64_t tokens, heads;
  std::vector<std::int64_t> widths;
  std::int64_t shared;
  DType dtype;

  [[nodiscard]] bool is_shared(std::size_t i) const { return i + static_cast<std::size_t>(shared) >= widths.size(); }
  [[nodiscard]] std::int64_t columns(std::size_t i) const { return is_shared(i) ? widths[i] : heads * widths[i]; }
  [[nodiscard]] std::int64_t head_width() const {
    std::int64_t sum = 0;
    for (const auto width : widths) sum += width;
    return sum;
  }
  [[nodiscard]] HeadPartsOptions options() const { return {heads, shared}; }
};

// The parts of one call, with memory of their own.
struct Parts {
  Parts(const Sizes& sizes, std::uint64_t seed) {
    for (std::size_t i = 0; i < sizes.widths.size(); ++i)
      data.push_back(std::make_unique<Data>(sizes.dtype, Shape{sizes.tokens, sizes.columns(i)}, seed == 0 ? 0 : seed + i));
    for (const auto& part : data) tensors.push_back(**part);
  }
  std::vector<std::unique_ptr<Data>> data;
  std::vector<Tensor> tensors;
};

std::vector<Sizes> all_sizes() {
  std::vector<Sizes> list;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {1, 5, 37})
      for (const std::int64_t heads : {1, 3, 16})
        for (const std::vector<std::int64_t>& widths :
             {std::vector<std::int64_t>{7}, {12, 7}, {1, 1}, {128, 64}, {3, 70, 5}, {2, 8, 1, 130}})
          for (std::int64_t shared = 0; shared <= static_cast<std::int64_t>(widths.size()); ++shared)
            list.push_back({tokens, heads, widths, shared, dtype});
  return list;
}

std::string describe(const Sizes& sizes) {
  return fmt::format("{} tokens, {} heads of {}, {} shared, {}", sizes.tokens, sizes.heads, fmt::join(sizes.widths, "+"), sizes.shared,
                     to_string(sizes.dtype));
}

TEST(HeadParts, JoinPutsThePartsOfEveryHeadSideBySide) {
  ThreadTeam team(1);
  for (const Sizes& sizes : all_sizes()) {
    SCOPED_TRACE(describe(sizes));
    const Parts parts(sizes, 1);
    for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
      Data y(sizes.dtype, {sizes.tokens, sizes.heads * sizes.head_width()});
      join_heads(stream_of(team, implementation), parts.tensors, sizes.options(), *y);
      wait();
      std::int64_t at = 0;
      for (std::int64_t t = 0; t < sizes.tokens; ++t)
        for (std::int64_t h = 0; h < sizes.heads; ++h)
          for (std::size_t i = 0; i < sizes.widths.size(); ++i)
            for (std::int64_t d = 0; d < sizes.widths[i]; ++d, ++at)
              ASSERT_EQ(y.at(at), parts.data[i]->at((sizes.is_shared(i) ? t : t * sizes.heads + h) * sizes.widths[i] + d)) << at;
    }
  }
}

TEST(HeadParts, SplitTakesThemApartAndAddsHeadsThatShare) {
  ThreadTeam team(1);
  for (const Sizes& sizes : all_sizes()) {
    SCOPED_TRACE(describe(sizes));
    const std::int64_t head_width = sizes.head_width();
    const Data x(sizes.dtype, {sizes.tokens, sizes.heads * head_width}, 5);
    for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
      const Parts parts(sizes, 0);
      split_heads(stream_of(team, implementation), *x, sizes.options(), parts.tensors);
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < sizes.widths.size(); ++i) {
        const std::int64_t width = sizes.widths[i];
        EXPECT_TRUE(lies_within(*parts.data[i], [&](std::int64_t index) {
          const std::int64_t d = index % width, row = index / width;
          if (!sizes.is_shared(i)) return around(x.at(row * head_width + offset + d), 0);
          // A sum of fp32 over the heads before it is stored.
          double sum = 0, size = 0;
          for (std::int64_t h = 0; h < sizes.heads; ++h) {
            const double term = x.at((row * sizes.heads + h) * head_width + offset + d);
            sum += term, size += std::abs(term);
          }
          return around(sum, roundings(static_cast<double>(sizes.heads)) * size);
        }));
        offset += width;
      }
    }
  }
}

TEST(HeadParts, SameBitsForAnyThreadCount) {
  for (const Sizes& sizes : all_sizes()) {
    SCOPED_TRACE(describe(sizes));
    const Parts parts(sizes, 1);
    const Data x(sizes.dtype, {sizes.tokens, sizes.heads * sizes.head_width()}, 5);
    ThreadTeam one(1);
    Data y(sizes.dtype, (*x).shape);
    const Parts taken(sizes, 0);
    join_heads(fast(one), parts.tensors, sizes.options(), *y);
    split_heads(fast(one), *x, sizes.options(), taken.tensors);
    for (const int threads : {2, 3}) {
      if (on_device() && threads == 3) continue;
      ThreadTeam team(threads);
      Data other(sizes.dtype, (*x).shape);
      const Parts others(sizes, 0);
      join_heads(fast(team), parts.tensors, sizes.options(), *other);
      split_heads(fast(team), *x, sizes.options(), others.tensors);
      EXPECT_TRUE(same_bits(other, y));
      for (std::size_t i = 0; i < taken.data.size(); ++i) EXPECT_TRUE(same_bits(*others.data[i], *taken.data[i])) << i;
    }
  }
}

// In fp32, 2²⁵ + 1 is 2²⁵: another order of the sum would leave a one.
TEST(HeadParts, HeadsAreAddedInOrder) {
  ThreadTeam team(1);
  Data x(DType::f32, {1, 6}), sum(DType::f32, {1, 2});
  x.set(0, 0x1p25);
  x.set(2, 1);
  x.set(4, -0x1p25);
  x.set(1, 0x1p25);
  x.set(3, -0x1p25);
  x.set(5, 1);
  const Tensor parts[] = {*sum};
  split_heads(fast(team), *x, {3, 1}, parts);
  EXPECT_EQ(sum.get(0), 0);
  EXPECT_EQ(sum.get(1), 1);
}

// join_heads is linear, so its gradient is its transpose: both have the same inner product with any two operands.
TEST(HeadParts, SplitIsTheGradientOfJoin) {
  ThreadTeam team(2);
  const Sizes sizes{9, 4, {6, 3}, 1, DType::f32};
  const Parts parts(sizes, 1), d_parts(sizes, 0);
  const Data dy(DType::f32, {9, 4 * 9}, 7);
  Data y(DType::f32, {9, 4 * 9});
  join_heads(fast(team), parts.tensors, sizes.options(), *y);
  split_heads(fast(team), *dy, sizes.options(), d_parts.tensors);
  double left = 0, right = 0, size = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) left += y.get(i) * dy.get(i), size += std::abs(y.get(i) * dy.get(i));
  for (std::size_t p = 0; p < 2; ++p)
    for (std::int64_t i = 0; i < parts.data[p]->elements(); ++i) right += parts.data[p]->get(i) * d_parts.data[p]->get(i);
  EXPECT_NEAR(left, right, roundings(4) * size);
}

TEST(HeadParts, RefusesPartsThatDoNotMakeTheWhole) {
  ThreadTeam team(1);
  const Data whole(DType::f32, {3, 20});
  const Data three(DType::f32, {3, 12}), two(DType::f32, {3, 8}), alone(DType::f32, {3, 2}), short_one(DType::f32, {2, 8}),
      half(DType::bf16, {3, 8}), odd(DType::f32, {3, 7});
  const auto refused = [&](const Tensor& second, HeadPartsOptions options) {
    const Tensor parts[] = {*three, second};
    const int joined = thrown([&] { join_heads(fast(team), parts, options, *whole); });
    EXPECT_EQ(joined, thrown([&] { split_heads(fast(team), *whole, options, parts); }));
    return joined;
  };
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(refused(*two, {4, 0}), -1);
  EXPECT_EQ(refused(*alone, {4, 1}), -1);
  EXPECT_EQ(refused(*alone, {4, 0}), internal);
  EXPECT_EQ(refused(*two, {4, 1}), internal);
  EXPECT_EQ(refused(*short_one, {4, 0}), internal);
  EXPECT_EQ(refused(*half, {4, 0}), internal);
  EXPECT_EQ(refused(*odd, {4, 0}), internal);
  EXPECT_EQ(refused(*two, {3, 0}), internal);
  EXPECT_EQ(refused(*two, {0, 0}), internal);
  EXPECT_EQ(refused(*two, {4, -1}), internal);
  EXPECT_EQ(refused(*two, {4, 3}), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
