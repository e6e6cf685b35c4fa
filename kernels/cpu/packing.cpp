#include "kernels/packing.hpp"

#include <algorithm>

#include "kernels/cpu/pack_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void pack_loop(const Tensor& b, const std::byte* from, const PackBlock& block, DType packed, std::byte* out) {
  const bool turned = block.column_step != 1;
  if (packed == DType::bf16 && turned && block.rows % 2 == 0)  // a pair of bf16 is one element of four bytes
    pick_pack_f32()(reinterpret_cast<const float*>(from), {1, block.column_step / 2, block.rows / 2, block.padded / 2, block.columns},
                    reinterpret_cast<float*>(out));
  else if (packed == DType::bf16)
    pick_pack_pairs()(reinterpret_cast<const BFloat16*>(from), block, reinterpret_cast<BFloat16*>(out));
  else if (b.dtype == DType::bf16)
    pick_pack_widen()(reinterpret_cast<const BFloat16*>(from), block, reinterpret_cast<float*>(out));
  else
    pick_pack_f32()(reinterpret_cast<const float*>(from), block, reinterpret_cast<float*>(out));
}

/// Rows of op(b), columns of op(b), and blocks of 64 columns: of b, or of each matrix of a stack.
struct Sizes {
  std::int64_t rows, columns, blocks, matrices;
  Sizes(const Shape& b, bool transpose)
      : rows(b[b.rank() - (transpose ? 1 : 2)]),
        columns(b[b.rank() - (transpose ? 2 : 1)]),
        blocks((columns + kPackedColumns - 1) / kPackedColumns),
        matrices(b.rank() == 3 ? b[0] : 1) {}
};

/// Blocks [begin, end) of 64 columns, counted over all matrices, on the calling thread.
void pack_blocks(const Tensor& b, bool transpose, std::byte* packed, std::int64_t begin, std::int64_t end) {
  const Sizes sizes(b.shape, transpose);
  const std::int64_t rows = sizes.rows, columns = sizes.columns;
  const DType kind = packed_dtype(b.dtype);
  const std::int64_t padded = packed_rows(rows, kind);
  const std::size_t block_bytes = static_cast<std::size_t>(padded * kPackedColumns) * size_of(kind);
  for (std::int64_t index = begin; index < end; ++index) {
    const std::int64_t matrix = index / sizes.blocks, block = index % sizes.blocks;
    std::byte* const out =
        packed + static_cast<std::size_t>(matrix) * packed_bytes(rows, columns, b.dtype) + static_cast<std::size_t>(block) * block_bytes;
    const std::int64_t first = block * kPackedColumns;
    const std::int64_t width = std::min(kPackedColumns, columns - first);
    const std::byte* const from =
        b.data + static_cast<std::size_t>(matrix * rows * columns + (transpose ? first * rows : first)) * size_of(b.dtype);
    pack_loop(b, from, {transpose ? 1 : columns, transpose ? rows : 1, rows, padded, width}, kind, out);
  }
}

void pack(const ExecutionContext& context, const Tensor& b, bool transpose, std::byte* packed) {
  const Sizes sizes(b.shape, transpose);
  context.team().for_ranges(sizes.matrices * sizes.blocks, 1,
                            [&](std::int64_t begin, std::int64_t end) { pack_blocks(b, transpose, packed, begin, end); });
}

// Packing moves elements and computes nothing: the reference reads what this writes.
const InTable in_table[] = {
    {Backend::reference, table::pack, pack},
    {Backend::cpu, table::pack, pack},
};

}  // namespace
}  // namespace millrace::kernels::cpu
