#include "kernels/cpu/packing.hpp"

#include <algorithm>

#include "kernels/cpu/pack_loops.hpp"
#include "kernels/packing.hpp"

namespace millrace::kernels::cpu {
namespace {

void pack_loop(DType stored, const std::byte* from, const PackBlock& block, DType packed, std::byte* out) {
  const bool turned = block.column_step != 1;
  if (packed == DType::bf16 && turned && block.rows % 2 == 0)  // a pair of bf16 is one element of four bytes
    pick_pack_f32()(reinterpret_cast<const float*>(from),
                    {1, block.column_step / 2, block.rows / 2, block.padded / 2, block.columns, block.soon}, reinterpret_cast<float*>(out));
  else if (packed == DType::bf16)
    pick_pack_pairs()(reinterpret_cast<const BFloat16*>(from), block, reinterpret_cast<BFloat16*>(out));
  else if (stored == DType::bf16)
    pick_pack_widen()(reinterpret_cast<const BFloat16*>(from), block, reinterpret_cast<float*>(out));
  else
    pick_pack_f32()(reinterpret_cast<const float*>(from), block, reinterpret_cast<float*>(out));
}

}  // namespace

void pack_blocks(const PackedMatrix& x, std::byte* packed, std::int64_t begin, std::int64_t end) {
  const DType kind = packed_dtype(x.dtype);
  const std::int64_t padded = packed_rows(x.rows, kind);
  const std::size_t block_bytes = static_cast<std::size_t>(padded * kPackedColumns) * size_of(kind);
  for (std::int64_t block = begin; block < end; ++block) {
    std::byte* const out = packed + static_cast<std::size_t>(block) * block_bytes;
    const std::int64_t first = block * kPackedColumns, width = std::min(kPackedColumns, x.columns - first);
    const std::byte* const from = x.data + static_cast<std::size_t>(x.transpose ? first * x.step : first) * size_of(x.dtype);
    pack_loop(x.dtype, from, {x.transpose ? 1 : x.step, x.transpose ? x.step : 1, x.rows, padded, width, x.soon}, kind, out);
  }
}

namespace {

void pack(const ExecutionContext& context, const Tensor& b, bool transpose, std::byte* packed) {
  const std::int64_t rows = b.shape[b.shape.rank() - (transpose ? 1 : 2)], columns = b.shape[b.shape.rank() - (transpose ? 2 : 1)];
  const std::int64_t matrices = b.shape.rank() == 3 ? b.shape[0] : 1;
  const PackedMatrix matrix{
      .data = b.data, .dtype = b.dtype, .transpose = transpose, .rows = rows, .columns = columns, .step = transpose ? rows : columns};
  context.team().for_ranges(matrices * matrix.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t block = index % matrix.blocks();
      PackedMatrix one = matrix;
      one.data += static_cast<std::size_t>(index / matrix.blocks() * rows * columns) * size_of(b.dtype);
      pack_blocks(one, packed + static_cast<std::size_t>(index / matrix.blocks()) * packed_bytes(rows, columns, b.dtype), block, block + 1);
    }
  });
}

// Packing moves elements and computes nothing: the reference reads what this writes.
const InTable in_table[] = {
    {Backend::reference, table::pack, pack},
    {Backend::cpu, table::pack, pack},
};

}  // namespace
}  // namespace millrace::kernels::cpu
