#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct ChooseBlocksOptions {
  std::int64_t sequence = 0;  // S: the T = rows·S tokens are rows of this length
  std::int64_t head_dim = 0;  // D; must be given if q is [T, H·D]; 0: the last axis of q [T, H, D]
  std::int64_t block = 0;     // C: the keys of a row are cut into blocks of this many; the last one may be shorter
  std::int64_t blocks = 0;    // a query has as many of them, or all up to its own if those are fewer

  static constexpr auto members() {
    return std::tuple(member("sequence", &ChooseBlocksOptions::sequence), member("head_dim", &ChooseBlocksOptions::head_dim),
                      member("block", &ChooseBlocksOptions::block), member("blocks", &ChooseBlocksOptions::blocks));
  }
};

/// The number of blocks of a row.
[[nodiscard]] constexpr std::int64_t blocks_of_row(std::int64_t sequence, std::int64_t block) { return (sequence + block - 1) / block; }
/// W, the number of 32-bit words with one bit for each block of a row.
[[nodiscard]] constexpr std::int64_t choice_words(std::int64_t sequence, std::int64_t block) {
  return (blocks_of_row(sequence, block) + 31) / 32;
}

/// Chooses the blocks of keys that each query attends to (MoBA: Lu et al., arXiv 2502.13189): its own block, and among the earlier ones
/// those whose mean key has the largest products with it, the earlier of two equal ones. q [T, H, D], k [T, K, D] of one dtype, f32 or
/// bf16; query head h has key/value head h / (H / K). choice i32 [T, H, W]: bit b % 32 of word b / 32 says whether the query has block b of
/// its row. All keys of a block count in its mean, whatever their segments. A mean is the fp64 sum of the keys in order, divided and
/// rounded once to fp32; a product is the fp64 sum over the features in order: the choice is the same on every backend and for every thread
/// count. It has no gradient. Throws Error(config) if H is not a multiple of K, or a block or the number of blocks is below 1.
void choose_blocks(const ExecutionContext& context, const Tensor& q, const Tensor& k, ChooseBlocksOptions options, const Tensor& choice,
                   Scratch scratch);

/// Scratch for the means of keys of shape [T, K, D].
[[nodiscard]] std::size_t choose_blocks_scratch_bytes(const Shape& k, ChooseBlocksOptions options, const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(choose_blocks)> choose_blocks("choose_blocks");
inline constinit Kernel<decltype(choose_blocks_scratch_bytes)> choose_blocks_scratch_bytes("choose_blocks_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
