#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/choose_blocks.hpp"

namespace millrace::kernels::reference {

/// The sizes of one call.
struct BlockChoice {
  BlockChoice(const Shape& q, const Shape& k, const ChooseBlocksOptions& options)
      : sequence(options.sequence),
        heads(q[1]),
        kv_heads(k[1]),
        width(k[2]),
        block(options.block),
        limit(options.blocks),
        blocks(blocks_of_row(options.sequence, options.block)),
        words(choice_words(options.sequence, options.block)) {}
  std::int64_t sequence, heads, kv_heads, width, block;
  std::int64_t limit;   // of a query's blocks
  std::int64_t blocks;  // of a row
  std::int64_t words;   // of a query's choice
};

/// Bytes of the means f32 [rows, K, blocks, D].
[[nodiscard]] std::size_t block_means_bytes(const Shape& k, const ChooseBlocksOptions& options);

/// The means of all blocks of one row and key/value head, of `pairs` [begin, end), pair = row·K + head; the CPU's backend cuts them between
/// its threads.
void find_block_means(const Tensor& k, const BlockChoice& sizes, std::int64_t begin, std::int64_t end, float* means);

}  // namespace millrace::kernels::reference
