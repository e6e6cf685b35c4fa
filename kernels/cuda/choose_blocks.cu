#include "kernels/choose_blocks.hpp"

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

/// The operands and sizes of one call.
template <class T>
struct ChooseBlocks {
  const T *q, *k;
  float* means;  // [rows, K, blocks, D]
  std::int32_t* choice;
  std::int64_t sequence, heads, kv_heads, width;
  std::int64_t block, limit, blocks, words;  // keys of a block, blocks of a query and of a row, words of a choice
};

/// One feature of one mean.
template <class T>
struct BlockMean {
  ChooseBlocks<T> at;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t d = index % at.width, b = index / at.width % at.blocks, pair = index / at.width / at.blocks;
    const std::int64_t first = b * at.block, left = at.sequence - first, count = left < at.block ? left : at.block;
    const std::int64_t token = pair / at.kv_heads * at.sequence + first;
    double sum = 0;
    for (std::int64_t u = token; u < token + count; ++u)
      sum += static_cast<double>(load(at.k + (u * at.kv_heads + pair % at.kv_heads) * at.width + d));
    at.means[index] = static_cast<float>(sum / static_cast<double>(count));
  }
};

/// One query of one head. A product of two fp32 numbers is exact in fp64, so that its sum is that of the contract whether or not the two
/// are contracted. The best block is looked for again for each further one, so that no list of products is needed.
template <class T>
struct BlockChoiceOfQuery {
  ChooseBlocks<T> at;
  __device__ void operator()(std::int64_t vector) const {
    const std::int64_t token = vector / at.heads, head = vector % at.heads, own = token % at.sequence / at.block;
    const std::int64_t pair = token / at.sequence * at.kv_heads + head / (at.heads / at.kv_heads);
    const float* means = at.means + pair * at.blocks * at.width;
    std::int32_t* choice = at.choice + vector * at.words;
    for (std::int64_t i = 0; i < at.words; ++i) choice[i] = 0;
    take(choice, own);
    const std::int64_t limit = at.limit < own + 1 ? at.limit : own + 1;
    for (std::int64_t taken = 1; taken < limit; ++taken) {
      std::int64_t best = -1;
      double largest = 0;
      for (std::int64_t b = 0; b < own; ++b) {
        if ((static_cast<unsigned>(choice[b / 32]) >> (b % 32) & 1U) != 0) continue;
        double product = 0;
        for (std::int64_t d = 0; d < at.width; ++d)
          product += static_cast<double>(load(at.q + vector * at.width + d)) * static_cast<double>(means[b * at.width + d]);
        if (best >= 0 && !(product > largest)) continue;
        best = b;
        largest = product;
      }
      take(choice, best);
    }
  }
  __device__ static void take(std::int32_t* choice, std::int64_t b) {
    choice[b / 32] = static_cast<std::int32_t>(static_cast<unsigned>(choice[b / 32]) | 1U << (b % 32));
  }
};

void choose_blocks(const ExecutionContext& context, const Tensor& q, const Tensor& k, ChooseBlocksOptions options, const Tensor& choice,
                   Scratch scratch) {
  constexpr const char* component = "kernels.choose_blocks";
  with_type(q.dtype, [&](auto type) {
    using T = decltype(type);
    const ChooseBlocks<T> at{q.as<T>(),
                             k.as<T>(),
                             reinterpret_cast<float*>(scratch.data()),
                             choice.as<std::int32_t>(),
                             options.sequence,
                             q.shape[1],
                             k.shape[1],
                             q.shape[2],
                             options.block,
                             options.blocks,
                             blocks_of_row(options.sequence, options.block),
                             choice_words(options.sequence, options.block)};
    const std::int64_t rows = q.shape[0] / options.sequence;
    for_each(context, component, rows * at.kv_heads * at.blocks * at.width, BlockMean<T>{at});
    for_each(context, component, q.shape[0] * at.heads, BlockChoiceOfQuery<T>{at});
  });
}

std::size_t choose_blocks_scratch_bytes(const Shape& k, ChooseBlocksOptions options, const Processor& /*processor*/) {
  const std::int64_t means = k[0] / options.sequence * k[1] * blocks_of_row(options.sequence, options.block);
  return static_cast<std::size_t>(means * k[2]) * sizeof(float);
}

const InTable in_table[] = {
    {Backend::cuda, table::choose_blocks, choose_blocks},
    {Backend::cuda, table::choose_blocks_scratch_bytes, choose_blocks_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
