#include "kernels/choose_blocks.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

struct BlockCase {
  std::int64_t rows, sequence, heads, kv_heads, width;
  DType dtype;
  std::int64_t block, blocks;
};

// Rows of one token and of one block, short last blocks, blocks of one key and more than 32 of them, a query's blocks from one to all.
const BlockCase kBlockCases[] = {
    {1, 1, 1, 1, 4, DType::f32, 4, 2},     {2, 17, 4, 2, 6, DType::f32, 4, 2},      {1, 100, 2, 1, 13, DType::f32, 1, 7},
    {3, 40, 6, 2, 24, DType::f32, 7, 3},   {1, 300, 2, 2, 8, DType::f32, 8, 20},    {1, 64, 2, 1, 16, DType::f32, 16, 1},
    {1, 64, 2, 1, 16, DType::f32, 9, 100}, {2, 65, 4, 1, 33, DType::bf16, 5, 4},    {1, 130, 2, 2, 80, DType::bf16, 16, 2},
    {1, 50, 2, 1, 16, DType::bf16, 64, 3}, {1, 260, 1, 1, 256, DType::f32, 2, 129},
};

struct Chooser {
  explicit Chooser(const BlockCase& c)
      : shape(c),
        q(c.dtype, {c.rows * c.sequence, c.heads, c.width}, 21),
        k(c.dtype, {c.rows * c.sequence, c.kv_heads, c.width}, 22),
        choice(DType::i32, {c.rows * c.sequence, c.heads, choice_words(c.sequence, c.block)}, 23) {}
  [[nodiscard]] ChooseBlocksOptions options() const {
    return {.sequence = shape.sequence, .head_dim = shape.width, .block = shape.block, .blocks = shape.blocks};
  }
  void run(const ExecutionContext& context) const {
    const Buffer scratch = scratch_of(context, choose_blocks_scratch_bytes((*k).shape, options(), context.processor()));
    choose_blocks(context, *q, *k, options(), *choice, scratch.bytes());
  }
  [[nodiscard]] std::vector<bool> chosen(std::int64_t token, std::int64_t head) const {
    std::vector<bool> result;
    for (std::int64_t b = 0; b < (*choice).shape[2] * 32; ++b) {
      const auto word = (*choice).as<std::uint32_t>()[(token * shape.heads + head) * (*choice).shape[2] + b / 32];
      result.push_back((word >> (b % 32) & 1U) != 0);
    }
    return result;
  }
  /// The definition: the products of a query with all earlier blocks' means, sorted.
  [[nodiscard]] std::vector<bool> defined(std::int64_t token, std::int64_t head) const {
    const BlockCase& c = shape;
    const std::int64_t row = token / c.sequence * c.sequence, own = token % c.sequence / c.block, kv_head = head * c.kv_heads / c.heads;
    std::vector<double> products(static_cast<std::size_t>(own), 0.0);
    for (std::int64_t b = 0; b < own; ++b)
      for (std::int64_t d = 0; d < c.width; ++d) {
        double mean = 0;
        for (std::int64_t u = b * c.block; u < (b + 1) * c.block; ++u) mean += k.at(((row + u) * c.kv_heads + kv_head) * c.width + d);
        const auto rounded = static_cast<float>(mean / static_cast<double>(c.block));
        products[static_cast<std::size_t>(b)] += q.at((token * c.heads + head) * c.width + d) * static_cast<double>(rounded);
      }
    std::vector<std::size_t> order(products.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return products[a] > products[b]; });
    std::vector<bool> result(static_cast<std::size_t>((*choice).shape[2] * 32), false);
    result[static_cast<std::size_t>(own)] = true;
    for (std::size_t i = 0; i < order.size() && static_cast<std::int64_t>(i) + 1 < c.blocks; ++i) result[order[i]] = true;
    return result;
  }
  BlockCase shape;
  Data q, k, choice;
};

TEST(ChooseBlocks, IsTheDefinition) {
  for (const Implementation implementation : {Implementation::reference, Implementation::fast})
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      for (const BlockCase& c : kBlockCases) {
        const Chooser chooser(c);
        chooser.run(stream_of(team, implementation));
        for (std::int64_t token = 0; token < c.rows * c.sequence; ++token)
          for (std::int64_t head = 0; head < c.heads; ++head)
            ASSERT_EQ(chooser.chosen(token, head), chooser.defined(token, head))
                << c.sequence << " " << c.block << " " << c.blocks << " token " << token << " head " << head << " threads " << threads;
      }
    }
}

// All keys are equal, so that all products are: the earliest blocks are chosen.
TEST(ChooseBlocks, AmongEqualBlocksTheEarlierIsBetter) {
  for (const Implementation implementation : {Implementation::reference, Implementation::fast}) {
    Chooser chooser({1, 60, 2, 1, 3, DType::f32, 5, 4});
    for (std::int64_t i = 0; i < chooser.k.elements(); ++i) chooser.k.set(i, 0.5);
    ThreadTeam team(2);
    chooser.run(stream_of(team, implementation));
    const auto last = chooser.chosen(59, 1);
    for (std::size_t b = 0; b < 12; ++b) EXPECT_EQ(last[b], b < 3 || b == 11) << b;
  }
}

// The keys of its own block, and later ones, change no choice.
TEST(ChooseBlocks, SeesNoLaterBlock) {
  Chooser chooser({1, 40, 2, 1, 8, DType::f32, 8, 2});
  ThreadTeam team(1);
  chooser.run(fast(team));
  const auto before = chooser.chosen(25, 0);
  for (std::int64_t i = 24 * 8; i < chooser.k.elements(); ++i) chooser.k.set(i, 1e6);
  chooser.run(fast(team));
  EXPECT_EQ(chooser.chosen(25, 0), before);
}

TEST(ChooseBlocks, AllocatesNothing) {
  MILLRACE_CPU_ONLY();
  const Chooser chooser({1, 300, 2, 2, 64, DType::f32, 1, 40});
  ThreadTeam team(2);
  const ExecutionContext context = fast(team);
  const Buffer scratch = scratch_of(context, choose_blocks_scratch_bytes((*chooser.k).shape, chooser.options(), context.processor()));
  const std::int64_t before = large_allocations();
  choose_blocks(context, *chooser.q, *chooser.k, chooser.options(), *chooser.choice, scratch.bytes());
  EXPECT_EQ(large_allocations(), before);
}

TEST(ChooseBlocks, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Chooser chooser({1, 12, 4, 2, 8, DType::f32, 4, 2});
  const Buffer scratch = scratch_of(context, 1 << 16);
  const auto call = [&](const Tensor& k, ChooseBlocksOptions options, const Tensor& choice, Scratch memory) {
    return thrown([&] { choose_blocks(context, *chooser.q, k, options, choice, memory); });
  };
  const ChooseBlocksOptions fits = chooser.options();
  EXPECT_EQ(call(*chooser.k, fits, *chooser.choice, scratch.bytes()), -1);
  const Data three_heads(DType::f32, {12, 3, 8}), other_type(DType::bf16, {12, 2, 8}), two_words(DType::i32, {12, 4, 2});
  EXPECT_EQ(call(*three_heads, fits, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*other_type, fits, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*chooser.k, fits, *two_words, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*chooser.k, fits, *chooser.choice, scratch.bytes().first(8)), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*chooser.k, {12, 8, 0, 2}, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*chooser.k, {12, 8, 4, 0}, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::config));
  EXPECT_EQ(call(*chooser.k, {5, 8, 4, 2}, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*chooser.k, {12, 4, 4, 2}, *chooser.choice, scratch.bytes()), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
