#include "kernels/cpu/gemm/tile_gemm_loops.hpp"

#include "kernels/cpu/gemm/tiles.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 32;                  // rows and columns of a block of c: two by two tiles
constexpr std::int64_t kStep = 32;                   // depth of a tile of a
constexpr std::int64_t kBlockStep = kBlock * kStep;  // elements of a copied step: two tiles of a
constexpr std::int64_t kColumnsOfB = 64;             // of a block of b

/// Copies `rows` <= 32 rows of `depth` numbers, as tiles, with zeros up to 32 rows and to a multiple of 32 numbers.
MILLRACE_INLINE void copy_rows(const BFloat16* a, std::int64_t a_step, std::int64_t rows, std::int64_t depth, BFloat16* out) {
  const std::int64_t whole = depth / kStep * kStep;
  for (std::int64_t row = 0; row < kBlock; ++row) {
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

MILLRACE_INLINE u32x16 pair_lines(const BFloat16* even, const BFloat16* odd) {
  u16x16 a, b;
  __builtin_memcpy(&a, even, sizeof a);
  __builtin_memcpy(&b, odd, sizeof b);
  return __builtin_convertvector(a, u32x16) | __builtin_convertvector(b, u32x16) << 16;
}

/// The same from a transposed matrix: `rows` columns of `depth` lines.
MILLRACE_INLINE void copy_columns(const BFloat16* a, std::int64_t a_step, std::int64_t rows, std::int64_t depth, BFloat16* out) {
  for (std::int64_t k = 0; k < depth; k += kStep)
    for (std::int64_t first = 0; first < kBlock; first += 16) {
      BFloat16* const to = out + k * kBlock + first * kStep;
      f32x16 square[16];
      const std::int64_t wide = rows - first, tall = depth - k;
      if (wide >= 16 && tall >= kStep) {
#pragma GCC unroll 16
        for (std::int64_t pair = 0; pair < 16; ++pair) {
          const BFloat16* from = a + (k + 2 * pair) * a_step + first;
          square[pair] = (f32x16)pair_lines(from, from + a_step);
        }
      } else {
        BFloat16 lines[2 * 16 * 16] = {};
        for (std::int64_t t = 0; t < smaller(tall, kStep); ++t)
          for (std::int64_t i = 0; i < smaller(wide, 16); ++i) lines[t * 16 + i] = a[(k + t) * a_step + first + i];
        for (std::int64_t pair = 0; pair < 16; ++pair) square[pair] = (f32x16)pair_lines(lines + 32 * pair, lines + 32 * pair + 16);
      }
      transpose_16x16(square);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) store(reinterpret_cast<float*>(to + i * kStep), square[i]);
    }
}

/// to [32, 32] = from + a · b over `steps` steps; from zero if null.
MILLRACE_INLINE void multiply_block(Tiles& tiles, const BFloat16* a, const BFloat16* b, std::int64_t steps, const float* from,
                                    std::int64_t from_step, float* to, std::int64_t to_step) {
  constexpr std::int64_t line = 4;  // bytes of a sum
  if (from == nullptr) {
    tiles.clear<0>();
    tiles.clear<1>();
    tiles.clear<2>();
    tiles.clear<3>();
  } else {
    tiles.load<0>(from, from_step * line);
    tiles.load<1>(from + 16, from_step * line);
    tiles.load<2>(from + 16 * from_step, from_step * line);
    tiles.load<3>(from + 16 * from_step + 16, from_step * line);
  }
  constexpr std::int64_t b_step = kColumnsOfB * 4;
  for (std::int64_t step = 0; step < steps; ++step, a += kBlockStep, b += kStep * kColumnsOfB) {
    tiles.load<4>(a, 64);
    tiles.load<6>(b, b_step);
    tiles.multiply_add<0, 4, 6>();
    tiles.load<7>(b + 32, b_step);
    tiles.multiply_add<1, 4, 7>();
    tiles.load<5>(a + kBlockStep / 2, 64);
    tiles.multiply_add<2, 5, 6>();
    tiles.multiply_add<3, 5, 7>();
  }
  tiles.store<0>(to, to_step * line);
  tiles.store<1>(to + 16, to_step * line);
  tiles.store<2>(to + 16 * to_step, to_step * line);
  tiles.store<3>(to + 16 * to_step + 16, to_step * line);
}

/// Adds what is to be added to the sums of a block and writes it to c.
MILLRACE_INLINE void finish_block(const TileGemm& x, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns,
                                  const float* sums) {
  for (std::int64_t i = 0; i < rows; ++i, sums += kBlock) {
    const std::int64_t to = (row + i) * x.c_step + column, other = (row + i) * x.addend_step + column;
    f32x16 part[2] = {load(sums), load(sums + 16)};
    if (columns == kBlock) {
      for (int h = 0; h < 2; ++h) {
        if (x.wide_addend != nullptr) part[h] += load(x.wide_addend + other + 16 * h);
        if (x.narrow_addend != nullptr) part[h] += load(x.narrow_addend + other + 16 * h);
      }
      if (x.wide != nullptr) {
        store(x.wide + to, part[0]);
        store(x.wide + to + 16, part[1]);
      } else {
        store_rounded(x.narrow + to, part[0], part[1]);
      }
      continue;
    }
    float line[kBlock];
    store(line, part[0]);
    store(line + 16, part[1]);
    for (std::int64_t j = 0; j < columns; ++j) {
      if (x.wide_addend != nullptr) line[j] += x.wide_addend[other + j];
      if (x.narrow_addend != nullptr) line[j] += to_float(x.narrow_addend[other + j]);
    }
    if (x.wide != nullptr) {
      for (std::int64_t j = 0; j < columns; ++j) x.wide[to + j] = line[j];
    } else {
      alignas(64) BFloat16 rounded[kBlock];
      store_rounded(rounded, load(line), load(line + 16));
      for (std::int64_t j = 0; j < columns; ++j) x.narrow[to + j] = rounded[j];
    }
  }
}

}  // namespace

namespace MILLRACE_TILES {

void tile_gemm(const TileGemm& x, std::byte* memory) {
  Tiles tiles;
  auto* const copy = reinterpret_cast<BFloat16*>(memory);                             // [rows / 32, depth / 32, 2, 16, 32]
  auto* const block = reinterpret_cast<float*>(memory + kTileRows * kTileDepth * 2);  // [32, 32]
  auto* const partial = block + kBlock * kBlock;                                      // [rows, width]
  const std::int64_t padded = (x.k + kStep - 1) / kStep * kStep;
  for (std::int64_t left = 0; left < x.n; left += kTileWidth)
    for (std::int64_t top = 0; top < x.m; top += kTileRows) {
      const std::int64_t right = smaller(left + kTileWidth, x.n), bottom = smaller(top + kTileRows, x.m);
      for (std::int64_t begin = 0; begin < x.k; begin += kTileDepth) {
        const std::int64_t depth = smaller(kTileDepth, x.k - begin), steps = (depth + kStep - 1) / kStep;
        const bool last = begin + depth == x.k;
        for (std::int64_t row = top; row < bottom; row += kBlock) {
          const std::int64_t rows = smaller(kBlock, bottom - row);
          if (x.transpose_a)
            copy_columns(x.a + begin * x.a_step + row, x.a_step, rows, depth, copy);
          else
            copy_rows(x.a + row * x.a_step + begin, x.a_step, rows, depth, copy);
          for (std::int64_t column = left; column < right; column += kBlock) {
            const std::int64_t columns = smaller(kBlock, right - column);
            const BFloat16* const b = x.b + column / kColumnsOfB * kColumnsOfB * padded + begin * kColumnsOfB + column % kColumnsOfB * 2;
            const bool whole = rows == kBlock && columns == kBlock;
            float* const kept = partial + (row - top) * kTileWidth + column - left;
            const float* from = begin > 0 ? kept : nullptr;
            std::int64_t from_step = kTileWidth;
            float* to = last ? block : kept;
            std::int64_t to_step = last ? kBlock : kTileWidth;
            if (x.wide != nullptr && whole && x.wide_addend == nullptr) {
              to = x.wide + row * x.c_step + column;
              to_step = x.c_step;
              from_step = x.c_step;
              from = begin > 0 || x.accumulate ? to : nullptr;
            } else if (begin == 0 && x.accumulate) {
              for (std::int64_t i = 0; i < rows; ++i)
                for (std::int64_t j = 0; j < columns; ++j) kept[i * kTileWidth + j] = x.wide[(row + i) * x.c_step + column + j];
              from = kept;
            }
            multiply_block(tiles, copy, b, steps, from, from_step, to, to_step);
            if (to == block) finish_block(x, row, column, rows, columns, block);
          }
        }
      }
    }
}

}  // namespace MILLRACE_TILES
}  // namespace millrace::kernels::cpu
