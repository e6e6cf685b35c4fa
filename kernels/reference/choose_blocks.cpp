#include "kernels/reference/choose_blocks.hpp"

#include <algorithm>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The product of the query at `vector` of q with the mean of a block.
double product_of(const Tensor& q, std::int64_t vector, const float* mean, std::int64_t width) {
  double sum = 0;
  for (std::int64_t d = 0; d < width; ++d) sum += double{load(q, vector * width + d)} * double{mean[d]};
  return sum;
}

/// Finds the best block again for each further one, so that no list of products is needed.
void choose(const Tensor& q, const BlockChoice& sizes, std::int64_t token, std::int64_t head, const float* means, std::int32_t* choice) {
  const std::int64_t own = token % sizes.sequence / sizes.block, vector = token * sizes.heads + head;
  const auto has = [&](std::int64_t b) { return (static_cast<std::uint32_t>(choice[b / 32]) >> (b % 32) & 1U) != 0; };
  const auto take = [&](std::int64_t b) {
    choice[b / 32] = static_cast<std::int32_t>(static_cast<std::uint32_t>(choice[b / 32]) | 1U << (b % 32));
  };
  std::fill(choice, choice + sizes.words, 0);
  take(own);
  for (std::int64_t taken = 1; taken < std::min(sizes.limit, own + 1); ++taken) {
    std::int64_t best = -1;
    double largest = 0;
    for (std::int64_t b = 0; b < own; ++b) {
      if (has(b)) continue;
      const double product = product_of(q, vector, means + b * sizes.width, sizes.width);
      if (best >= 0 && !(product > largest)) continue;
      best = b;
      largest = product;
    }
    take(best);
  }
}

void choose_blocks(const Tensor& q, const Tensor& k, ChooseBlocksOptions options, const Tensor& choice, Scratch scratch) {
  const BlockChoice sizes(q.shape, k.shape, options);
  auto* means = reinterpret_cast<float*>(scratch.data());
  find_block_means(k, sizes, 0, k.shape[0] / sizes.sequence * sizes.kv_heads, means);
  for (std::int64_t token = 0; token < q.shape[0]; ++token)
    for (std::int64_t head = 0; head < sizes.heads; ++head) {
      const std::int64_t pair = token / sizes.sequence * sizes.kv_heads + head / (sizes.heads / sizes.kv_heads);
      choose(q, sizes, token, head, means + pair * sizes.blocks * sizes.width,
             choice.as<std::int32_t>() + (token * sizes.heads + head) * sizes.words);
    }
}

std::size_t choose_blocks_scratch_bytes(const Shape& k, ChooseBlocksOptions options, const Processor& /*processor*/) {
  return block_means_bytes(k, options);
}

const InTable choose_blocks_in_table[] = {
    {Backend::reference, table::choose_blocks, without_context<choose_blocks>},
    {Backend::reference, table::choose_blocks_scratch_bytes, choose_blocks_scratch_bytes},
};

}  // namespace

std::size_t block_means_bytes(const Shape& k, const ChooseBlocksOptions& options) {
  const std::int64_t means = k[0] / options.sequence * k[1] * blocks_of_row(options.sequence, options.block);
  return static_cast<std::size_t>(means * k[2]) * sizeof(float);
}

void find_block_means(const Tensor& k, const BlockChoice& sizes, std::int64_t begin, std::int64_t end, float* means) {
  for (std::int64_t pair = begin; pair < end; ++pair)
    for (std::int64_t b = 0; b < sizes.blocks; ++b) {
      const std::int64_t first = b * sizes.block, count = std::min(sizes.block, sizes.sequence - first);
      for (std::int64_t d = 0; d < sizes.width; ++d) {
        double sum = 0;
        for (std::int64_t u = first; u < first + count; ++u) {
          const std::int64_t token = pair / sizes.kv_heads * sizes.sequence + u;
          sum += load(k, (token * sizes.kv_heads + pair % sizes.kv_heads) * sizes.width + d);
        }
        means[(pair * sizes.blocks + b) * sizes.width + d] = static_cast<float>(sum / static_cast<double>(count));
      }
    }
}

}  // namespace millrace::kernels::reference
