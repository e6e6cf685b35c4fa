#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/packing.hpp"

namespace millrace::kernels::cpu {

/// A right operand op(b) [rows, columns] before it is packed: stored as it is, or as [columns, rows] where transposed.
struct PackedMatrix {
  const std::byte* data;
  DType dtype;
  bool transpose;
  std::int64_t rows, columns;
  std::int64_t step;  // elements from one stored row to the next
  bool soon = false;  // the product follows at once, so the packed operand should stay in the caches

  /// Blocks of 64 columns.
  [[nodiscard]] std::int64_t blocks() const { return (columns + kPackedColumns - 1) / kPackedColumns; }
};

/// Packs blocks [begin, end) on the calling thread. `packed` is where block 0 begins.
void pack_blocks(const PackedMatrix& matrix, std::byte* packed, std::int64_t begin, std::int64_t end);

}  // namespace millrace::kernels::cpu
