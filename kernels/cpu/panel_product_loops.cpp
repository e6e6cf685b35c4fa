#include "kernels/cpu/panel_product_loops.hpp"

#include "kernels/cpu/simd/transpose_16x16.hpp"
#include "kernels/cpu/tile_product.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr int kPanelVectors = kPanelColumns / kWide;

/// Lines of a matrix that are fetched before they are copied.
constexpr std::int64_t kAhead = 8;

MILLRACE_INLINE void fetch(const float* p) { __builtin_prefetch(p, 0, 3); }

/// Copies 16 floats in registers; GCC passes vectors wider than a register through the stack.
MILLRACE_INLINE void copy_line(const float* from, float* to) {
  Wide part[kPanelVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kPanelVectors; ++i) __builtin_memcpy(&part[i], from + i * kWide, sizeof(Wide));
#pragma GCC unroll 8
  for (int i = 0; i < kPanelVectors; ++i) __builtin_memcpy(to + i * kWide, &part[i], sizeof(Wide));
}

/// Copies `lines` lines of 16 · panels columns into panels, `step` floats from one to the next.
template <int panels>
MILLRACE_INLINE void copy_panels(const float* from, std::int64_t from_step, std::int64_t lines, float* out, std::int64_t step) {
  for (std::int64_t line = 0; line < lines; ++line) {
    const float* ahead = from + smaller(line + kAhead, lines - 1) * from_step;
#pragma GCC unroll 4
    for (int panel = 0; panel < panels; ++panel) {
      fetch(ahead + panel * kPanelColumns);
      copy_line(from + line * from_step + panel * kPanelColumns, out + panel * step + line * kPanelColumns);
    }
  }
}

/// Columns [left, right) of lines [begin, begin + depth) of op(b), panel after panel, with zeros beyond the last column.
MILLRACE_INLINE void pack_panels(const PanelProduct& x, std::int64_t left, std::int64_t right, std::int64_t begin, std::int64_t depth,
                                 float* out) {
  const std::int64_t size = depth * kPanelColumns;
  std::int64_t column = left;
  if (!x.transpose_b) {
    const float* b = x.b + begin * x.b_step;
    for (; column + 4 * kPanelColumns <= right; column += 4 * kPanelColumns, out += 4 * size)
      copy_panels<4>(b + column, x.b_step, depth, out, size);
    for (; column + kPanelColumns <= right; column += kPanelColumns, out += size) copy_panels<1>(b + column, x.b_step, depth, out, size);
    for (std::int64_t line = 0; line < depth && column < right; ++line)
      store(out + line * kPanelColumns, load(b + line * x.b_step + column, right - column));
    return;
  }
  const std::int64_t whole = depth / 16 * 16;
  for (; column < right; column += kPanelColumns, out += size) {
    const float* from = x.b + column * x.b_step + begin;
    const std::int64_t count = smaller(kPanelColumns, right - column), turned = count == kPanelColumns ? whole : 0;
    const bool more = column + 2 * kPanelColumns <= right;
    for (std::int64_t line = 0; line < turned; line += 16) {
      for (std::int64_t i = 0; more && i < kPanelColumns; ++i) fetch(from + (kPanelColumns + i) * x.b_step + line);
      transpose_16x16(from + line, x.b_step, out + line * kPanelColumns, kPanelColumns);
    }
    for (std::int64_t line = turned; line < depth; ++line)
      for (std::int64_t i = 0; i < kPanelColumns; ++i) out[line * kPanelColumns + i] = i < count ? from[i * x.b_step + line] : 0.0F;
  }
}

/// Whether rows of a are so far apart that they share few lines of the caches. Few columns do not repay a copy as soon.
MILLRACE_INLINE bool is_far(const PanelProduct& x) { return x.a_step >= (x.n < 192 ? 1024 : 512); }

/// Copies `rows` rows of `depth` floats, one after the other.
MILLRACE_INLINE void copy_rows(const float* from, std::int64_t from_step, std::int64_t rows, std::int64_t depth, float* out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* ahead = from + smaller(row + 2, rows - 1) * from_step;
    const std::int64_t whole = depth / kPanelColumns * kPanelColumns;
    for (std::int64_t i = 0; i < whole; i += kPanelColumns) {
      fetch(ahead + i);
      copy_line(from + row * from_step + i, out + row * depth + i);
    }
    for (std::int64_t i = whole; i < depth; ++i) out[row * depth + i] = from[row * from_step + i];
  }
}

/// What is added to a block of sums, and where they go.
struct PanelBlock {
  const float* a;
  std::int64_t a_step;
  const float* panel;
  std::int64_t depth;
  const float* before;  // c as it is, or null
  const float* addend;
  std::int64_t addend_step;
  float* c;
  std::int64_t c_step;
};

/// `rows` rows of 16 columns. Out of line: GCC keeps the sums in registers only in a function of its own.
template <int rows>
[[gnu::noinline]] void panel_block(const PanelBlock& x) {
  Wide sum[rows][kPanelVectors];
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kPanelVectors; ++n) sum[m][n] = Wide{};
  const float* a = x.a;
  const float* b = x.panel;
  const std::int64_t a_step = x.a_step, depth = x.depth;
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) __builtin_prefetch(x.c + m * x.c_step, 1, 3);
  for (std::int64_t k = 0; k < depth; ++k) {
    Wide right[kPanelVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kPanelVectors; ++n) __builtin_memcpy(&right[n], b + k * kPanelColumns + n * kWide, sizeof(Wide));
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
      const Wide left = broadcast(a + m * a_step + k);
#pragma GCC unroll 8
      for (int n = 0; n < kPanelVectors; ++n) sum[m][n] = multiply_add(left, right[n], sum[m][n]);
    }
  }
  const auto add = [&](const float* other, std::int64_t step) __attribute__((always_inline)) {
    if (other == nullptr) return;
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 8
      for (int n = 0; n < kPanelVectors; ++n) {
        Wide value;
        __builtin_memcpy(&value, other + m * step + n * kWide, sizeof(Wide));
        sum[m][n] += value;
      }
  };
  add(x.before, x.c_step);
  add(x.addend, x.addend_step);
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kPanelVectors; ++n) __builtin_memcpy(x.c + m * x.c_step + n * kWide, &sum[m][n], sizeof(Wide));
}

MILLRACE_INLINE void run_block(std::int64_t rows, const PanelBlock& block) {
  switch (rows) {
    case 6:
      return panel_block<6>(block);
    case 5:
      return panel_block<5>(block);
    case 4:
      return panel_block<4>(block);
    case 3:
      return panel_block<3>(block);
    case 2:
      return panel_block<2>(block);
    default:
      return panel_block<1>(block);
  }
}

/// The last columns, if they are not 16: what is added and the sums pass through a block of 16 columns.
MILLRACE_INLINE void run_edge(std::int64_t rows, std::int64_t columns, PanelBlock block) {
  float before[kBlockRows * kPanelColumns] = {}, addend[kBlockRows * kPanelColumns] = {}, sums[kBlockRows * kPanelColumns];
  float* const c = block.c;
  const std::int64_t c_step = block.c_step;
  const auto gather = [&](const float* from, std::int64_t step, float* to) __attribute__((always_inline)) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < columns; ++i) to[row * kPanelColumns + i] = from[row * step + i];
  };
  if (block.before != nullptr) {
    gather(block.before, c_step, before);
    block.before = before;
  }
  if (block.addend != nullptr) {
    gather(block.addend, block.addend_step, addend);
    block.addend = addend;
    block.addend_step = kPanelColumns;
  }
  block.c = sums;
  block.c_step = kPanelColumns;
  run_block(rows, block);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < columns; ++i) c[row * c_step + i] = sums[row * kPanelColumns + i];
}

}  // namespace

namespace MILLRACE_ISA {

void panel_product(const PanelProduct& x, float* memory) {
  const bool far = is_far(x);
  float* const rows_of_a = memory;
  float* const panels = memory + kPanelRows * smaller(kPanelDepth, x.k);
  for (std::int64_t left = 0; left < x.n; left += kPanelWidth) {
    const std::int64_t right = smaller(left + kPanelWidth, x.n);
    for (std::int64_t begin = 0; begin < x.k; begin += kPanelDepth) {
      const std::int64_t depth = smaller(kPanelDepth, x.k - begin);
      pack_panels(x, left, right, begin, depth, panels);
      for (std::int64_t top = 0; top < x.m; top += kPanelRows) {
        const std::int64_t bottom = smaller(top + kPanelRows, x.m), a_step = far ? depth : x.a_step;
        const float* a = x.a + top * x.a_step + begin;
        if (far) {
          copy_rows(a, x.a_step, bottom - top, depth, rows_of_a);
          a = rows_of_a;
        }
        for (std::int64_t column = left; column < right; column += kPanelColumns) {
          const std::int64_t columns = smaller(kPanelColumns, right - column);
          for (std::int64_t row = top; row < bottom; row += kBlockRows) {
            float* const c = x.c + row * x.c_step + column;
            const PanelBlock block{.a = a + (row - top) * a_step,
                                   .a_step = a_step,
                                   .panel = panels + (column - left) * depth,
                                   .depth = depth,
                                   .before = x.accumulate || begin > 0 ? c : nullptr,
                                   .addend = begin > 0 || x.addend == nullptr ? nullptr : x.addend + row * x.addend_step + column,
                                   .addend_step = x.addend_step,
                                   .c = c,
                                   .c_step = x.c_step};
            const std::int64_t rows = smaller(kBlockRows, bottom - row);
            if (columns == kPanelColumns)
              run_block(rows, block);
            else
              run_edge(rows, columns, block);
          }
        }
      }
    }
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
