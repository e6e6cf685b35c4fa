#include "kernels/cpu/gemm/tile_gemm_loops.hpp"

#include "kernels/cpu/gemm/multiply_sums.hpp"
#include "kernels/cpu/simd/pair_lines.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 32;                  // rows and columns of a block of c: two by two tiles
constexpr std::int64_t kStep = 32;                   // depth of a tile of a
constexpr std::int64_t kBlockStep = kBlock * kStep;  // elements of a copied step: two tiles of a
constexpr std::int64_t kColumnsOfB = 64;             // of a block of b
static_assert(kTileDepth <= kMostTileDepth && kTileDepth * kTileWidth <= kMostTileNumbers);
static_assert(2 * kTileRows * kTileWidth <= kMostTileNumbers);  // as many sums, in fp32

/// Copies `rows` <= 32 rows of `depth` numbers, as tiles, with zeros up to a multiple of 32 numbers and, if they are read, up to 32 rows.
MILLRACE_INLINE void copy_rows(const BFloat16* a, std::int64_t a_step, std::int64_t rows, std::int64_t depth, BFloat16* out) {
  const std::int64_t whole = depth / kStep * kStep;
  for (std::int64_t row = 0; row < (kReadsAllRows ? kBlock : rows); ++row) {
    BFloat16* to = out + row * kStep;
    if (row >= rows) {
      for (std::int64_t k = 0; k < depth; k += kStep, to += kBlockStep) store(reinterpret_cast<float*>(to), f32x16{});
      continue;
    }
    const BFloat16* from = a + row * a_step;
    for (std::int64_t k = 0; k < whole; k += kStep, to += kBlockStep)
      store(reinterpret_cast<float*>(to), load(reinterpret_cast<const float*>(from + k)));
    if (whole < depth) {
      store(reinterpret_cast<float*>(to), f32x16{});
      __builtin_memcpy(to, from + whole, static_cast<std::size_t>(depth - whole) * sizeof(BFloat16));
    }
  }
}

/// Two lines of 32 numbers as pairs: of numbers 0 – 3, 8 – 11, 16 – 19 and 24 – 27, and of the others.
MILLRACE_INLINE void pair_by_quarters(const BFloat16* even, const BFloat16* odd, f32x16& first, f32x16& second) {
  u16x32 a, b;
  __builtin_memcpy(&a, even, sizeof a);
  __builtin_memcpy(&b, odd, sizeof b);
  first = (f32x16)__builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 8, 40, 9, 41, 10, 42, 11, 43, 16, 48, 17, 49, 18, 50, 19, 51,
                                          24, 56, 25, 57, 26, 58, 27, 59);
  second = (f32x16)__builtin_shufflevector(a, b, 4, 36, 5, 37, 6, 38, 7, 39, 12, 44, 13, 45, 14, 46, 15, 47, 20, 52, 21, 53, 22, 54, 23, 55,
                                           28, 60, 29, 61, 30, 62, 31, 63);
}

/// 32 lines of 32 numbers, as two tiles of their 32 columns.
MILLRACE_INLINE void turn_lines(const BFloat16* from, std::int64_t from_step, BFloat16* to) {
  f32x16 first[16], second[16];
#pragma GCC unroll 16
  for (std::int64_t pair = 0; pair < 16; ++pair)
    pair_by_quarters(from + 2 * pair * from_step, from + (2 * pair + 1) * from_step, first[pair], second[pair]);
  transpose_16x16(first);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) store(reinterpret_cast<float*>(to + (i + i / 4 * 4) * kStep), first[i]);
  transpose_16x16(second);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) store(reinterpret_cast<float*>(to + (i + i / 4 * 4 + 4) * kStep), second[i]);
}

/// As copy_rows, from a transposed matrix: `rows` columns of `depth` lines.
MILLRACE_INLINE void copy_columns(const BFloat16* a, std::int64_t a_step, std::int64_t rows, std::int64_t depth, BFloat16* out) {
  for (std::int64_t k = 0; k < depth; k += kStep, out += kBlockStep) {
    const BFloat16* const from = a + k * a_step;
    if (rows == kBlock && depth - k >= kStep) {
      turn_lines(from, a_step, out);
      continue;
    }
    alignas(64) BFloat16 lines[kStep * kBlock] = {};
    for (std::int64_t t = 0; t < smaller(depth - k, kStep); ++t)
      __builtin_memcpy(lines + t * kBlock, from + t * a_step, static_cast<std::size_t>(rows) * sizeof(BFloat16));
    turn_lines(lines, kBlock, out);
  }
}

/// A block of sums that is complete, [32, 32], and its place in c.
struct Finished {
  const float* sums;
  std::int64_t row, column, rows, columns;
};

/// Adds what is to be added to row i of a block and writes it to c.
MILLRACE_INLINE void finish_row(const TileGemm& x, const Finished& block, std::int64_t i, f32x16 left, f32x16 right) {
  const std::int64_t to = (block.row + i) * x.c_step + block.column, other = (block.row + i) * x.addend_step + block.column;
  if (block.columns == kBlock) {
    if (x.wide_addend != nullptr) {
      left += load(x.wide_addend + other);
      right += load(x.wide_addend + other + 16);
    }
    if (x.narrow_addend != nullptr) {
      left += load(x.narrow_addend + other);
      right += load(x.narrow_addend + other + 16);
    }
    if (x.narrow != nullptr) return store_rounded(x.narrow + to, left, right);
    store(x.wide + to, left);
    return store(x.wide + to + 16, right);
  }
  alignas(64) float line[kBlock];
  store(line, left);
  store(line + 16, right);
  for (std::int64_t j = 0; j < block.columns; ++j) {
    if (x.wide_addend != nullptr) line[j] += x.wide_addend[other + j];
    if (x.narrow_addend != nullptr) line[j] += to_float(x.narrow_addend[other + j]);
  }
  if (x.narrow == nullptr) {
    for (std::int64_t j = 0; j < block.columns; ++j) x.wide[to + j] = line[j];
    return;
  }
  alignas(64) BFloat16 rounded[kBlock];
  store_rounded(rounded, load(line), load(line + 16));
  for (std::int64_t j = 0; j < block.columns; ++j) x.narrow[to + j] = rounded[j];
}

/// Finishes rows [begin, end) of a block.
MILLRACE_INLINE void finish_rows(const TileGemm& x, const Finished& block, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < smaller(end, block.rows); ++i)
    finish_row(x, block, i, load(block.sums + i * kBlock), load(block.sums + i * kBlock + 16));
}

/// Where the sums of a block of c come from and go to, with the floats from one row to the next, and how many rows are needed. From zero
/// if there is no `from`.
struct Sums {
  const float* from;
  std::int64_t from_step;
  float* to;
  std::int64_t to_step;
  std::int64_t rows;
};

/// What is fetched into the caches while a block is multiplied: some of the 32 rows of a that are copied next (of a transposed matrix: of
/// the 32 lines per step), the lines of the next block of c or of its sums, and some lines of the part of b that is multiplied next.
struct Ahead {
  const BFloat16* a;
  std::int64_t row_step, depth_step;  // elements from row to row, and from step to step
  std::int64_t begin, end;            // of the 32 rows
  const char* c;
  std::int64_t c_step;  // bytes
  std::int64_t c_rows;  // at most
  bool two_lines;       // of c in each row
  const BFloat16* b;
  std::int64_t b_lines;  // of 32 numbers, in each step

  /// What belongs to these steps and to these rows of the block.
  [[gnu::always_inline]] void fetch(Part steps, Part rows) const {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t step = steps.begin; step < steps.end; ++step) __builtin_prefetch(a + row * row_step + step * depth_step, 0, 2);
    for (std::int64_t row = rows.begin; row < smaller(rows.end, c_rows); ++row) {
      __builtin_prefetch(c + row * c_step, 1, 3);
      if (two_lines) __builtin_prefetch(c + row * c_step + 64, 1, 3);
    }
    for (std::int64_t line = steps.begin * b_lines; line < steps.end * b_lines; ++line) __builtin_prefetch(b + line * 32, 0, 2);
  }
};

/// to [32, 32] = from + a · b over this depth. Sums that are written row by row are finished at once, and `now` then has no rows left;
/// otherwise the vector units finish the block before this one while tiles multiply.
template <class Registers>
MILLRACE_INLINE void multiply_block(Registers& tiles, const BFloat16* a, const BFloat16* b, std::int64_t depth, const Sums& sums,
                                    const TileGemm& x, const Finished& before, Finished& now, const Ahead& ahead) {
  const SumBlock block{.from = sums.from,
                       .from_step = sums.from_step,
                       .to = sums.to,
                       .to_step = sums.to_step,
                       .a = a,
                       .a_lower = kBlockStep / 2,
                       .a_step = kBlockStep,
                       .b = b,
                       .b_right = 32,
                       .b_pair = 2 * kColumnsOfB,
                       .b_step = kStep * kColumnsOfB,
                       .depth = depth,
                       .rows = sums.rows};
  const auto meanwhile = [&](Part steps, Part rows) __attribute__((always_inline)) {
    ahead.fetch(steps, rows);
    if constexpr (!kFinishesAtOnce) finish_rows(x, before, rows.begin, rows.end);
  };
  if constexpr (kFinishesAtOnce) {
    if (now.rows > 0) {
      const bool rounds_alone = x.narrow != nullptr && x.narrow_addend == nullptr && x.wide_addend == nullptr && now.columns == kBlock;
      if (rounds_alone)
        multiply_sums(
            tiles, block, meanwhile,
            [ to = x.narrow + now.row * x.c_step + now.column, step = x.c_step ](std::int64_t row, f32x16 left, f32x16 right)
                __attribute__((always_inline)) { store_rounded(to + row * step, left, right); });
      else
        multiply_sums(
            tiles, block, meanwhile, [&x, &now ](std::int64_t row, f32x16 left, f32x16 right) __attribute__((always_inline)) {
              finish_row(x, now, row, left, right);
            });
      now.rows = 0;
      return;
    }
  }
  multiply_sums(tiles, block, meanwhile);
}

/// A thread's memory: 32 rows of a as tiles [depth / 32, 2, 16, 32], two finished blocks [2, 32, 32], and the sums that are kept between
/// parts of the depth [rows / 32, width / 32, 32, 32] or, if they are kept in c, a packed part of b [width / 64, depth, 64].
struct Workspace {
  BFloat16* a;
  float* finished;
  float* kept;
  BFloat16* b;

  explicit Workspace(std::byte* memory)
      : a(reinterpret_cast<BFloat16*>(memory)),
        finished(reinterpret_cast<float*>(a + kBlock * kTileDepth)),
        kept(finished + 2 * kBlock * kBlock),
        b(reinterpret_cast<BFloat16*>(kept)) {}
  /// The other of the two finished blocks.
  [[nodiscard]] float* beside(const float* block) const { return block == finished ? finished + kBlock * kBlock : finished; }
};

/// The length of the parts, a multiple of `unit`, if `count` is cut into as few as possible of at most `most`, all alike but the last.
MILLRACE_INLINE std::int64_t even_part(std::int64_t count, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = (count + most - 1) / most;
  return ((count + parts - 1) / parts + unit - 1) / unit * unit;
}

/// One product, on the calling thread.
class Multiplier {
 public:
  Multiplier(const TileGemm& x, std::byte* memory) : x_(x), work_(memory) {}

  [[gnu::always_inline]] void run() {
    const std::int64_t rows = x_.b_step > 0 ? x_.m : kTileRows;
    const std::int64_t width = even_part(x_.n, kTileWidth, kColumnsOfB), depth = even_part(x_.k, kTileDepth, kStep);
    for (left_ = 0; left_ < x_.n; left_ = right_) {
      right_ = smaller(left_ + width, x_.n);
      for (std::int64_t top = 0; top < x_.m; top += rows)
        for (begin_ = 0; begin_ < x_.k; begin_ += depth_) {
          depth_ = smaller(depth, x_.k - begin_);
          if (x_.b_step > 0) pack_b();
          for (std::int64_t row = top; row < smaller(top + rows, x_.m); row += kBlock) multiply_rows(row, top, smaller(top + rows, x_.m));
        }
    }
    finish();
  }

 private:
  [[nodiscard]] std::int64_t steps() const { return (depth_ + kStep - 1) / kStep; }
  [[nodiscard]] const BFloat16* a_at(std::int64_t row, std::int64_t depth) const {
    return x_.a + (x_.transpose_a ? depth * x_.a_step + row : row * x_.a_step + depth);
  }
  void pack_b() {
    const BFloat16* const from = x_.b + begin_ * x_.b_step;
    BFloat16* to = work_.b;
    for (std::int64_t column = left_; column < right_; column += kColumnsOfB, to += kTileDepth * kColumnsOfB)
      pair_block(from + column, x_.b_step, depth_, smaller(kColumnsOfB, right_ - column), steps() * kStep, to);
  }
  /// The columns from `column` on of a packed operand, from this depth on.
  [[nodiscard]] const BFloat16* packed_at(const BFloat16* b, std::int64_t column, std::int64_t depth) const {
    return b + column / kColumnsOfB * kColumnsOfB * ((x_.k + kStep - 1) / kStep * kStep) + depth * kColumnsOfB + column % kColumnsOfB * 2;
  }
  /// The columns from `column` on of the current part of b.
  [[nodiscard]] const BFloat16* b_at(std::int64_t column) const {
    if (x_.b_step == 0) return packed_at(x_.b, column, begin_);
    return work_.b + (column / kColumnsOfB * kColumnsOfB - left_) * kTileDepth + column % kColumnsOfB * 2;
  }
  /// The part of b after the current one, or null if it need not be fetched: many rows use each part while it is in the caches.
  [[nodiscard]] const BFloat16* next_part(std::int64_t bottom) const {
    if (x_.b_step > 0 || bottom < x_.m) return nullptr;
    const bool deeper = begin_ + depth_ < x_.k, further = right_ < x_.n;
    if (!deeper && !further) return x_.next_b;
    if (x_.m > kTileRows || !kFetchesAll) return nullptr;
    return deeper ? packed_at(x_.b, left_, begin_ + depth_) : packed_at(x_.b, right_, 0);
  }
  void finish() {
    finish_rows(x_, before_, 0, kBlock);
    before_.rows = 0;
  }

  /// Multiplies 32 rows, which are copied, by the current part of b. The rows after them are those below `bottom`, or again from `top` on.
  [[gnu::always_inline]] void multiply_rows(std::int64_t row, std::int64_t top, std::int64_t bottom) {
    const std::int64_t rows = smaller(kBlock, bottom - row);
    if (x_.transpose_a)
      copy_columns(a_at(row, begin_), x_.a_step, rows, depth_, work_.a);
    else
      copy_rows(a_at(row, begin_), x_.a_step, rows, depth_, work_.a);
    const bool below = row + kBlock < bottom, deeper = begin_ + depth_ < x_.k;
    const BFloat16* const next = below    ? a_at(row + kBlock, begin_)
                                 : deeper ? a_at(top, begin_ + depth_)
                                          : a_at(smaller(bottom, x_.m - 1), 0);
    const std::int64_t blocks = (right_ - left_ + kBlock - 1) / kBlock;
    const auto size = static_cast<std::int64_t>(x_.narrow != nullptr ? sizeof(BFloat16) : sizeof(float));
    const char* const c = x_.narrow != nullptr ? reinterpret_cast<const char*>(x_.narrow) : reinterpret_cast<const char*>(x_.wide);
    const bool keeps = !in_c_ && begin_ > 0, adds_to_c = in_c_ && (x_.accumulate || begin_ > 0);
    const BFloat16* const part = next_part(bottom);
    // Each of the rows' passes over the columns fetches its share of every block of 64 columns.
    const std::int64_t shares = (bottom - top + kBlock - 1) / kBlock * 2;
    const std::int64_t lines = part == nullptr ? 0 : (2 * depth_ + shares * steps() - 1) / (shares * steps());
    for (std::int64_t column = left_, index = 0; column < right_; column += kBlock, ++index) {
      float* const kept = work_.kept + ((row - top) * kTileWidth / kBlock + index * kBlock) * kBlock;
      // The block after this one: in the next columns, in the first ones of the next rows, or in the next part of the columns.
      const bool beside = column + kBlock < right_;
      const std::int64_t next_row = beside ? row : below ? row + kBlock : top, next_column = beside || !below ? column + kBlock : left_;
      const Ahead ahead{
          .a = next,
          .row_step = x_.a_step,
          .depth_step = x_.transpose_a ? kStep * x_.a_step : kStep,
          .begin = index * kBlock / blocks,
          .end = (index + 1) * kBlock / blocks,
          .c = keeps ? reinterpret_cast<const char*>(kept + kBlock * kBlock) : c + (next_row * x_.c_step + next_column) * size,
          .c_step = keeps ? kBlock * static_cast<std::int64_t>(sizeof(float)) : x_.c_step * size,
          .c_rows = kFetchesAll || adds_to_c ? kBlock : 0,
          .two_lines = keeps || x_.narrow == nullptr,
          .b = part == nullptr ? nullptr
                               : packed_at(part, index / 2 * kColumnsOfB, ((row - top) / kBlock * 2 + index % 2) * lines * steps() / 2),
          .b_lines = lines};
      multiply(row, column, rows, kept, ahead);
    }
  }

  /// One block of c. `kept` is where its sums are kept between parts of the depth, unless they are in c.
  [[gnu::always_inline]] void multiply(std::int64_t row, std::int64_t column, std::int64_t rows, float* kept, const Ahead& ahead) {
    const std::int64_t columns = smaller(kBlock, right_ - column);
    const bool whole = rows == kBlock && columns == kBlock, last = begin_ + depth_ == x_.k;
    Sums sums{.from = begin_ > 0 ? kept : nullptr, .from_step = kBlock, .to = kept, .to_step = kBlock, .rows = rows};
    if (in_c_ || last) sums.to = work_.beside(before_.sums);
    if (x_.wide != nullptr && (begin_ == 0 ? x_.accumulate : in_c_)) {
      float* const c = x_.wide + row * x_.c_step + column;
      if (whole) {
        sums.from = c;
        sums.from_step = x_.c_step;
      } else {
        finish();  // it may be this block, from the part before
        float* const sides = sums.to;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) sides[i * kBlock + j] = c[i * x_.c_step + j];
        sums.from = sides;
      }
    }
    if (in_c_ && whole) {
      sums.to = x_.wide + row * x_.c_step + column;
      sums.to_step = x_.c_step;
    }
    Finished now{.sums = sums.to, .row = row, .column = column, .rows = sums.to == kept || (in_c_ && whole) ? 0 : rows, .columns = columns};
    multiply_block(tiles_, work_.a, b_at(column), depth_, sums, x_, before_, now, ahead);
    before_ = now;
  }

  const TileGemm& x_;
  Workspace work_;
  Tiles tiles_;
  Finished before_{};
  std::int64_t left_ = 0, right_ = 0, begin_ = 0, depth_ = 0;  // the current columns and part of the depth
  bool in_c_ = x_.wide != nullptr && x_.wide_addend == nullptr;
};

}  // namespace

namespace MILLRACE_TILES {

void tile_gemm(const TileGemm& x, std::byte* memory) { Multiplier(x, memory).run(); }

}  // namespace MILLRACE_TILES
}  // namespace millrace::kernels::cpu
