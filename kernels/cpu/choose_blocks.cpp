#include "kernels/choose_blocks.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/buffer.hpp"
#include "kernels/reference/choose_blocks.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::cpu {
namespace {

using reference::BlockChoice;

/// So many blocks are compared with a query at a time: their products are sums that do not wait for each other.
constexpr std::int64_t kBlocks = 8;
constexpr std::int64_t kTokens = 16;  // of a query head that a thread takes at a time

/// The best blocks so far, best first; an equal one that comes later is worse.
struct Best {
  double* products;
  std::int32_t* blocks;
  std::int64_t limit, count = 0;

  void offer(double product, std::int32_t block) {
    if (count == limit && !(product > products[count - 1])) return;
    std::int64_t place = count < limit ? count++ : limit - 1;
    for (; place > 0 && product > products[place - 1]; --place) {
      products[place] = products[place - 1];
      blocks[place] = blocks[place - 1];
    }
    products[place] = product;
    blocks[place] = block;
  }
};

/// The products of a query with the means of blocks [first, first + count), count <= kBlocks, each in the order of features.
std::array<double, kBlocks> products_of(const Tensor& q, std::int64_t begin, const float* means, std::int64_t first, std::int64_t count,
                                        std::int64_t width) {
  std::array<double, kBlocks> sums{};
  for (std::int64_t d = 0; d < width; ++d) {
    const double x = reference::load(q, begin + d);
    for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += x * double{means[(first + i) * width + d]};
  }
  return sums;
}

void choose(const Tensor& q, const BlockChoice& sizes, std::int64_t token, std::int64_t head, const float* means, Best best,
            std::int32_t* choice) {
  const std::int64_t own = token % sizes.sequence / sizes.block, begin = (token * sizes.heads + head) * sizes.width;
  const auto take = [&](std::int64_t b) {
    choice[b / 32] = static_cast<std::int32_t>(static_cast<std::uint32_t>(choice[b / 32]) | 1U << (b % 32));
  };
  std::fill(choice, choice + sizes.words, 0);
  take(own);
  if (own < sizes.limit) {
    for (std::int64_t b = 0; b < own; ++b) take(b);
    return;
  }
  for (std::int64_t first = 0; first < own && best.limit > 0; first += kBlocks) {
    const std::int64_t count = std::min(kBlocks, own - first);
    const auto products = products_of(q, begin, means, first, count, sizes.width);
    for (std::int64_t i = 0; i < count; ++i) best.offer(products[static_cast<std::size_t>(i)], static_cast<std::int32_t>(first + i));
  }
  for (std::int64_t i = 0; i < best.count; ++i) take(best.blocks[i]);
}

/// Blocks beside its own that a query may have to choose.
std::int64_t list_length(const ChooseBlocksOptions& options) {
  return std::min(options.blocks, blocks_of_row(options.sequence, options.block)) - 1;
}
/// Bytes of a thread's list.
std::size_t list_bytes(const ChooseBlocksOptions& options) {
  return align_up(static_cast<std::size_t>(list_length(options)) * (sizeof(double) + sizeof(std::int32_t)));
}

void choose_blocks(const ExecutionContext& context, const Tensor& q, const Tensor& k, ChooseBlocksOptions options, const Tensor& choice,
                   Scratch scratch) {
  const BlockChoice sizes(q.shape, k.shape, options);
  ThreadTeam& team = context.team();
  auto* means = reinterpret_cast<float*>(scratch.data());
  std::byte* lists = scratch.data() + align_up(reference::block_means_bytes(k.shape, options));
  team.for_ranges(k.shape[0] / sizes.sequence * sizes.kv_heads, 1,
                  [&](std::int64_t begin, std::int64_t end) { reference::find_block_means(k, sizes, begin, end, means); });
  team.run([&](int thread, int threads) {
    auto* products = reinterpret_cast<double*>(lists + static_cast<std::size_t>(thread) * list_bytes(options));
    auto* blocks = reinterpret_cast<std::int32_t*>(products + list_length(options));
    // Late queries have more blocks, so that the threads take turns.
    for (std::int64_t first = thread * kTokens; first < q.shape[0]; first += threads * kTokens)
      for (std::int64_t token = first; token < std::min(first + kTokens, q.shape[0]); ++token)
        for (std::int64_t head = 0; head < sizes.heads; ++head) {
          const std::int64_t pair = token / sizes.sequence * sizes.kv_heads + head / (sizes.heads / sizes.kv_heads);
          choose(q, sizes, token, head, means + pair * sizes.blocks * sizes.width, {products, blocks, list_length(options)},
                 choice.as<std::int32_t>() + (token * sizes.heads + head) * sizes.words);
        }
  });
}

std::size_t choose_blocks_scratch_bytes(const Shape& k, ChooseBlocksOptions options, const Processor& processor) {
  return align_up(reference::block_means_bytes(k, options)) + static_cast<std::size_t>(processor.threads) * list_bytes(options);
}

const InTable in_table[] = {
    {Backend::cpu, table::choose_blocks, choose_blocks},
    {Backend::cpu, table::choose_blocks_scratch_bytes, choose_blocks_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
