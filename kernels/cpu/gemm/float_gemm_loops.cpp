#include "kernels/cpu/gemm/float_gemm_loops.hpp"

#include "kernels/cpu/gemm/float_panels.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kPackedBlock = 64;  // columns of a block of a packed b (kernels/packing.hpp)
constexpr std::int64_t kCacheLine = 64;
#if defined(__AVX512F__)
constexpr bool kReadsInMultiplyAdds = true;
#else
constexpr bool kReadsInMultiplyAdds = false;
#endif
constexpr std::int64_t kChunk = 8;  // steps of the depth between two fetches

MILLRACE_INLINE std::int64_t parts_of(std::int64_t count, std::int64_t most) { return (count + most - 1) / most; }

/// Cache lines that are fetched while a block is multiplied: in each chunk of the depth those of some items, as long as there are any.
struct Ahead {
  const char* from = nullptr;
  std::int64_t step = 0;   // bytes from one item to the next
  std::int64_t items = 0;  // in all
  std::int64_t lines = 0;  // of each item
  std::int64_t each = 1;   // items of a chunk

  [[gnu::always_inline]] void fetch(std::int64_t chunk) const {
    for (std::int64_t item = chunk * each; item < smaller((chunk + 1) * each, items); ++item)
      for (std::int64_t line = 0; line < lines; ++line) __builtin_prefetch(from + item * step + line * kCacheLine, 0, 2);
  }
  /// Some of its items.
  [[gnu::always_inline]] [[nodiscard]] Ahead part(std::int64_t first, std::int64_t count) const {
    first = smaller(first, items);
    return {.from = from + first * step, .step = step, .items = smaller(count, items - first), .lines = lines, .each = each};
  }
};

/// A block of c: what is multiplied, what is added to it, and where it goes.
struct Block {
  const float* a;  // a panel
  const float* b;  // a panel
  std::int64_t b_step, depth;
  const float* before;  // c as it is, or null
  const float* addend;  // or null
  std::int64_t addend_step;
  float* c;
  std::int64_t c_step;
  Ahead next_a, next_b;
  Ahead next_c;  // if this block's own lines could not be fetched early enough
};

template <int rows>
MILLRACE_INLINE void add(Wide (&sum)[rows][kBlockVectors], const float* other, std::int64_t step) {
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kBlockVectors; ++n) {
      Wide value;
      __builtin_memcpy(&value, other + m * step + n * kWide, sizeof(Wide));
      sum[m][n] += value;
    }
}

/// sum += number · right. With AVX-512 the instruction itself repeats the number that it reads: one instruction less than a register with
/// the number, which two vectors use, and one load more.
MILLRACE_INLINE void multiply_add_number(Wide& sum, const float* number, Wide right) {
#if defined(__AVX512F__)
  asm("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*number), "v"(right));
#else
  sum = multiply_add(broadcast(number), right, sum);
#endif
}

/// One step of the depth. Elements of a are `a_step` floats apart. With AVX-512 every other row reads its numbers in the multiply-adds:
/// neither the instructions nor the loads are then what limits a core that other programs share.
template <int rows, std::int64_t a_step>
MILLRACE_INLINE void multiply_step(Wide (&sum)[rows][kBlockVectors], const float* a, const float* b) {
  Wide right[kBlockVectors];
#pragma GCC unroll 2
  for (int n = 0; n < kBlockVectors; ++n) __builtin_memcpy(&right[n], b + n * kWide, sizeof(Wide));
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m) {
    if (kReadsInMultiplyAdds && m % 2 == 1) {
#pragma GCC unroll 2
      for (int n = 0; n < kBlockVectors; ++n) multiply_add_number(sum[m][n], a + m * a_step, right[n]);
      continue;
    }
    const Wide left = broadcast(a + m * a_step);
#pragma GCC unroll 2
    for (int n = 0; n < kBlockVectors; ++n) sum[m][n] = multiply_add(left, right[n], sum[m][n]);
  }
}

/// Fetches the part of a panel of a that is read after the next chunk.
template <int rows, bool turned>
MILLRACE_INLINE void fetch_panel(const float* a, std::int64_t chunk) {
  if constexpr (turned) {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kChunk * kLine; i += 16) __builtin_prefetch(a + kChunk * kLine + i, 0, 3);
  } else {
    const float* const from = a + 2 * kChunk + chunk % 2 * (rows / 2) * kRowStep;
#pragma GCC unroll 8
    for (int m = 0; m < (rows + 1) / 2; ++m) __builtin_prefetch(from + m * kRowStep, 0, 3);
  }
}

/// `rows` rows of kBlockColumns columns. Out of line: GCC keeps the sums in registers only in a function of its own.
template <int rows, bool turned>
[[gnu::noinline]] void multiply_block(const Block& x) {
  constexpr std::int64_t from_row = turned ? 1 : kRowStep, from_step = turned ? kLine : 1;
  Wide sum[rows][kBlockVectors];
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kBlockVectors; ++n) sum[m][n] = Wide{};
  const float *a = x.a, *b = x.b;
  const std::int64_t b_step = x.b_step, chunks = x.depth / kChunk;
  x.next_c.fetch(0);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk, a += kChunk * from_step) {
    if (chunk < rows) {
#pragma GCC unroll 2
      for (std::int64_t n = 0; n < kBlockColumns; n += 16) __builtin_prefetch(x.c + chunk * x.c_step + n, 1, 3);
    }
    x.next_b.fetch(chunk);
    x.next_a.fetch(chunk);
    fetch_panel<rows, turned>(a, chunk);
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < kChunk; ++k, b += b_step) multiply_step<rows, from_row>(sum, a + k * from_step, b);
  }
  for (std::int64_t k = chunks * kChunk; k < x.depth; ++k, a += from_step, b += b_step) multiply_step<rows, from_row>(sum, a, b);
  if (x.before != nullptr) add(sum, x.before, x.c_step);
  if (x.addend != nullptr) add(sum, x.addend, x.addend_step);
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kBlockVectors; ++n) __builtin_memcpy(x.c + m * x.c_step + n * kWide, &sum[m][n], sizeof(Wide));
}

template <bool turned, int rows = kBlockRows>
MILLRACE_INLINE void run_block(std::int64_t count, const Block& block) {
  if constexpr (rows > 1) {
    if (count < rows) return run_block<turned, rows - 1>(count, block);
  }
  multiply_block<rows, turned>(block);
}

/// The last columns, if they are fewer than a block's: what is added and the sums pass through a block of all columns.
template <bool turned>
MILLRACE_INLINE void run_edge(std::int64_t rows, std::int64_t columns, Block block) {
  float before[kBlockRows * kBlockColumns] = {}, addend[kBlockRows * kBlockColumns] = {}, sums[kBlockRows * kBlockColumns];
  float* const c = block.c;
  const std::int64_t c_step = block.c_step;
  const auto gather = [&](const float* from, std::int64_t step, float* to) __attribute__((always_inline)) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < columns; ++i) to[row * kBlockColumns + i] = from[row * step + i];
  };
  if (block.before != nullptr) {
    gather(block.before, c_step, before);
    block.before = before;
  }
  if (block.addend != nullptr) {
    gather(block.addend, block.addend_step, addend);
    block.addend = addend;
    block.addend_step = kBlockColumns;
  }
  block.c = sums;
  block.c_step = kBlockColumns;
  run_block<turned>(rows, block);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < columns; ++i) c[row * c_step + i] = sums[row * kBlockColumns + i];
}

/// One product, on the calling thread. Rows of a are copied in blocks of at most kRows, cut evenly into panels; each panel of b is
/// multiplied with all of them while it is in the caches.
class Multiplier {
 public:
  Multiplier(const FloatGemm& x, float* memory) : x_(x), panel_of_b_(memory), panels_(memory + kFloatPanelOfB) {}

  [[gnu::always_inline]] void run() {
    const std::int64_t blocks = parts_of(x_.m, kRows);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t top = x_.m * block / blocks;
      at_.cut(top, x_.m * (block + 1) / blocks - top);
      for (at_.begin = 0; at_.begin < x_.k; at_.begin += kDepth) {
        at_.depth = smaller(kDepth, x_.k - at_.begin);
        if (x_.a.dtype == DType::bf16)
          copy_panels_of_a<BFloat16>(x_, at_, panels_);
        else
          copy_panels_of_a<float>(x_, at_, panels_);
        for (std::int64_t column = 0; column < x_.n; column += kBlockColumns) multiply_column(column);
      }
    }
  }

 private:
  [[nodiscard]] bool packed() const { return x_.b.step == 0; }
  [[nodiscard]] std::int64_t size_of_a() const { return x_.a.dtype == DType::bf16 ? 2 : 4; }
  [[nodiscard]] std::int64_t size_of_b() const { return x_.b.dtype == DType::bf16 ? 2 : 4; }
  [[nodiscard]] const float* packed_at(const float* b, std::int64_t column, std::int64_t line) const {
    return b + column / kPackedBlock * kPackedBlock * ((x_.k + 15) / 16 * 16) + line * kPackedBlock + column % kPackedBlock;
  }

  /// The part of a that is copied next: of its rows, the lines that the columns from `column` on fetch; of a transposed matrix all rows.
  [[nodiscard]] Ahead ahead_of_a(std::int64_t column) const {
    const bool deeper = at_.begin + kDepth < x_.k;
    const std::int64_t top = deeper ? at_.top : at_.top + at_.rows, begin = deeper ? at_.begin + kDepth : 0;
    if (top >= x_.m) return {};
    const std::int64_t rows = smaller(at_.rows, x_.m - top), depth = smaller(kDepth, x_.k - begin);
    const std::int64_t size = size_of_a(), step = x_.a.step * size;
    const auto* const from = static_cast<const char*>(x_.a.data);
    if (x_.a.transpose)
      return {.from = from + begin * step + top * size, .step = step, .items = depth, .lines = parts_of(rows * size, kCacheLine)};
    const std::int64_t columns = parts_of(x_.n, kBlockColumns), index = column / kBlockColumns;
    const std::int64_t lines = parts_of(depth * size, kCacheLine), first = lines * index / columns;
    return {.from = from + top * step + begin * size + first * kCacheLine,
            .step = step,
            .items = rows,
            .lines = lines * (index + 1) / columns - first};
  }

  /// The panel of b that is multiplied after the one at `column`.
  [[nodiscard]] Ahead ahead_of_b(std::int64_t column) const {
    const bool further = column + kBlockColumns < x_.n, deeper = at_.begin + kDepth < x_.k, below = at_.top + at_.rows < x_.m;
    if (!further && !deeper && !below && x_.next_b == nullptr) return {};
    const std::int64_t left = further ? column + kBlockColumns : 0, begin = further ? at_.begin : deeper ? at_.begin + kDepth : 0;
    const std::int64_t depth = smaller(kDepth, x_.k - begin), size = size_of_b();
    if (packed()) {
      const float* const b = further || deeper || below ? static_cast<const float*>(x_.b.data) : x_.next_b;
      return {.from = reinterpret_cast<const char*>(packed_at(b, left, begin)),
              .step = kPackedBlock * size,
              .items = depth,
              .lines = parts_of(kBlockColumns * size, kCacheLine)};
    }
    const auto* const from = static_cast<const char*>(x_.b.data);
    const std::int64_t step = x_.b.step * size;
    if (x_.b.transpose)
      return {.from = from + left * step + begin * size,
              .step = step,
              .items = smaller(kBlockColumns, x_.n - left),
              .lines = parts_of(depth * size, kCacheLine)};
    return {.from = from + begin * step + left * size, .step = step, .items = depth, .lines = parts_of(kBlockColumns * size, kCacheLine)};
  }

  /// The lines of a block of c. The panel after the last is the first one of the next columns.
  [[nodiscard]] Ahead block_of_c(std::int64_t column, std::int64_t panel) const {
    if (panel == at_.panels) {
      panel = 0;
      column += kBlockColumns;
    }
    const std::int64_t size = sizeof(float), row = at_.first[panel], rows = at_.first[panel + 1] - row;
    return {.from = reinterpret_cast<const char*>(x_.c + (at_.top + row) * x_.c_step + column),
            .step = x_.c_step * size,
            .items = column < x_.n ? rows : 0,
            .lines = kBlockColumns * size / kCacheLine,
            .each = rows};
  }

  [[gnu::always_inline]] void multiply_column(std::int64_t column) {
    const float* b = panel_of_b_;
    if (packed())
      b = packed_at(static_cast<const float*>(x_.b.data), column, at_.begin);
    else if (x_.b.dtype == DType::bf16)
      copy_panel_of_b<BFloat16>(x_, column, at_.begin, at_.depth, panel_of_b_);
    else
      copy_panel_of_b<float>(x_, column, at_.begin, at_.depth, panel_of_b_);
    const Ahead next_a = ahead_of_a(column), next_b = ahead_of_b(column);
    const std::int64_t all_blocks = at_.panels * parts_of(x_.n, kBlockColumns), before = column / kBlockColumns * at_.panels;
    const std::int64_t share_of_a = parts_of(next_a.items, all_blocks), share_of_b = parts_of(next_b.items, at_.panels);
    const std::int64_t chunks = at_.depth < kChunk ? 1 : at_.depth / kChunk, each = parts_of(share_of_b, chunks);
    const std::int64_t columns = smaller(kBlockColumns, x_.n - column);
    const bool few_chunks = chunks < kBlockRows;
    for (std::int64_t panel = 0; panel < at_.panels; ++panel) {
      const std::int64_t first = at_.first[panel], row = at_.top + first, rows = at_.first[panel + 1] - first;
      float* const c = x_.c + row * x_.c_step + column;
      Block block{.a = panels_ + panel * kPanel,
                  .b = b,
                  .b_step = packed() ? kPackedBlock : kBlockColumns,
                  .depth = at_.depth,
                  .before = x_.accumulate || at_.begin > 0 ? c : nullptr,
                  .addend = at_.begin > 0 || x_.addend == nullptr ? nullptr : x_.addend + row * x_.addend_step + column,
                  .addend_step = x_.addend_step,
                  .c = c,
                  .c_step = x_.c_step,
                  .next_a = x_.a.transpose ? next_a.part((before + panel) * share_of_a, share_of_a) : next_a.part(first, rows),
                  .next_b = next_b.part(panel * share_of_b, share_of_b)};
      block.next_b.each = each;
      if (few_chunks) block.next_c = block_of_c(column, panel + 1);
      if (x_.a.transpose)
        run<true>(rows, columns, block);
      else
        run<false>(rows, columns, block);
    }
  }

  template <bool turned>
  [[gnu::always_inline]] static void run(std::int64_t rows, std::int64_t columns, const Block& block) {
    if (columns == kBlockColumns)
      run_block<turned>(rows, block);
    else
      run_edge<turned>(rows, columns, block);
  }

  const FloatGemm& x_;
  float* panel_of_b_;
  float* panels_;  // of a
  RowBlock at_{};  // what is multiplied
};

}  // namespace

namespace MILLRACE_ISA {

void float_gemm(const FloatGemm& product, float* memory) { Multiplier(product, memory).run(); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
