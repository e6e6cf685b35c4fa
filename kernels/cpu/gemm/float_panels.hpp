#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/float_gemm_loops.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"
#include "kernels/cpu/simd/wide.hpp"

/// Copies of operands as float_gemm reads them, in fp32:
///
///   rows of a       a panel of up to kBlockRows rows, kRowStep floats from one to the next
///   columns of aᵀ   a panel of up to kBlockRows columns: line after line of kLine floats
///   columns of b    a panel of kBlockColumns columns: line after line, zeros beyond the last column
///
/// Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kBlockRows = 14, kLine = 16;  // 14 x 2 sums, 2 of b, 1 of a: 31 of 32 registers
constexpr std::int64_t kRows = 378, kDepth = 512;    // of a that are copied at a time
#else
constexpr std::int64_t kBlockRows = 6, kLine = 8;  // 6 x 2 sums, 2 of b, 1 of a: 15 of 16 registers
constexpr std::int64_t kRows = 240, kDepth = 256;
#endif
constexpr int kBlockVectors = 2;
constexpr std::int64_t kBlockColumns = kBlockVectors * kWide;
constexpr std::int64_t kRowStep = kDepth + 16;  // keeps rows apart in the caches
constexpr std::int64_t kPanel = kLine * kRowStep;
static_assert(kDepth * kBlockColumns <= kFloatPanelOfB && kRows <= kFloatRows);
static_assert(kPanel * 14 <= kFloatPanelOfA * kBlockRows);  // panels of kBlockRows take no more memory than those of 14

template <class T>
MILLRACE_INLINE float as_float(const T* p) {
  if constexpr (sizeof(T) == sizeof(float))
    return *p;
  else
    return to_float(*p);
}

/// Copies `count` elements.
template <class T>
MILLRACE_INLINE void copy_elements(const T* from, std::int64_t count, float* to) {
  const std::int64_t whole = count / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16) store(to + i, load(from + i));
  for (std::int64_t i = whole; i < count; ++i) to[i] = as_float(from + i);
}

/// Rows of a and a part of the depth. The rows are cut evenly into panels; panel p begins with row first[p], counted from the top.
struct RowBlock {
  std::int64_t top, rows, panels;
  std::int64_t first[kRows / kBlockRows + 1];
  std::int64_t begin, depth;

  [[gnu::always_inline]] void cut(std::int64_t from, std::int64_t count) {
    top = from;
    rows = count;
    panels = (rows + kBlockRows - 1) / kBlockRows;
    for (std::int64_t panel = 0; panel <= panels; ++panel) first[panel] = rows * panel / panels;
  }
};

/// Copies a block of rows of a.
template <class T>
MILLRACE_INLINE void copy_rows(const FloatOperand& a, const RowBlock& block, float* to) {
  const T* const from = static_cast<const T*>(a.data) + block.top * a.step + block.begin;
  for (std::int64_t panel = 0; panel < block.panels; ++panel, to += kPanel) {
    const std::int64_t first = block.first[panel];
    for (std::int64_t row = first; row < block.first[panel + 1]; ++row)
      copy_elements(from + row * a.step, block.depth, to + (row - first) * kRowStep);
  }
}

/// The same of a transposed matrix, of which `all` rows exist.
template <class T>
MILLRACE_INLINE void copy_turned_rows(const FloatOperand& a, std::int64_t all, const RowBlock& block, float* to) {
  for (std::int64_t k = 0; k < block.depth; ++k, to += kLine) {
    const T* const line = static_cast<const T*>(a.data) + (block.begin + k) * a.step + block.top;
    for (std::int64_t panel = 0; panel < block.panels; ++panel) {
      const std::int64_t row = block.first[panel], count = smaller(all - block.top - row, kLine);
      float* const out = to + panel * kPanel;
      if constexpr (kLine == 16) {
        store(out, count == kLine ? load(line + row) : load(line + row, count));
      } else {
        for (std::int64_t i = 0; i < count; ++i) out[i] = as_float(line + row + i);
      }
    }
  }
}

/// Columns [column, column + columns) of b, from line `begin` on.
template <class T>
MILLRACE_INLINE void copy_columns(const FloatOperand& b, std::int64_t column, std::int64_t columns, std::int64_t begin, std::int64_t depth,
                                  float* to) {
  const T* const from = static_cast<const T*>(b.data) + begin * b.step + column;
  if (columns < kBlockColumns) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < kBlockColumns; ++i) to[k * kBlockColumns + i] = i < columns ? as_float(from + k * b.step + i) : 0.0F;
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* const line = from + k * b.step;
    if constexpr (kBlockColumns % 16 == 0) {
#pragma GCC unroll 2
      for (std::int64_t i = 0; i < kBlockColumns; i += 16) store(to + k * kBlockColumns + i, load(line + i));
    } else {
      for (std::int64_t i = 0; i < kBlockColumns; ++i) to[k * kBlockColumns + i] = as_float(line + i);
    }
  }
}

/// A square of 16 lines, `from_step` elements apart, as 16 lines of their columns.
template <class T>
MILLRACE_INLINE void turn_square(const T* from, std::int64_t from_step, float* to, std::int64_t to_step) {
  if constexpr (sizeof(T) == sizeof(float)) {
    transpose_16x16(from, from_step, to, to_step);
  } else {
    alignas(64) float lines[16 * 16];
    for (std::int64_t i = 0; i < 16; ++i) store(lines + 16 * i, load(from + i * from_step));
    transpose_16x16(lines, 16, to, to_step);
  }
}

/// The same columns, which are rows in memory.
template <class T>
MILLRACE_INLINE void copy_turned_columns(const FloatOperand& b, std::int64_t column, std::int64_t columns, std::int64_t begin,
                                         std::int64_t depth, float* to) {
  const T* const from = static_cast<const T*>(b.data) + column * b.step + begin;
  std::int64_t turned = 0;
  if constexpr (kBlockColumns % 16 == 0) {
    turned = columns == kBlockColumns ? depth / 16 * 16 : 0;
    for (std::int64_t k = 0; k < turned; k += 16)
      for (std::int64_t i = 0; i < kBlockColumns; i += 16)
        turn_square(from + i * b.step + k, b.step, to + k * kBlockColumns + i, kBlockColumns);
  }
  for (std::int64_t k = turned; k < depth; ++k)
    for (std::int64_t i = 0; i < kBlockColumns; ++i) to[k * kBlockColumns + i] = i < columns ? as_float(from + i * b.step + k) : 0.0F;
}

/// A block of rows of a, as panels.
template <class T>
MILLRACE_INLINE void copy_panels_of_a(const FloatGemm& x, const RowBlock& block, float* to) {
  if (x.a.transpose)
    copy_turned_rows<T>(x.a, x.m, block, to);
  else
    copy_rows<T>(x.a, block, to);
}

/// A panel of b, which is not packed.
template <class T>
MILLRACE_INLINE void copy_panel_of_b(const FloatGemm& x, std::int64_t column, std::int64_t begin, std::int64_t depth, float* to) {
  const std::int64_t columns = smaller(kBlockColumns, x.n - column);
  if (x.b.transpose)
    copy_turned_columns<T>(x.b, column, columns, begin, depth, to);
  else
    copy_columns<T>(x.b, column, columns, begin, depth, to);
}

}  // namespace
}  // namespace millrace::kernels::cpu
