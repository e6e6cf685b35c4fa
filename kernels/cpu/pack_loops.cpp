#include "kernels/cpu/pack_loops.hpp"

#include "kernels/cpu/vector.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kColumns = 64;

/// Lines as they lie: vectors of them.
template <class From>
MILLRACE_INLINE void pack_lines(const From* in, const PackBlock& block, float* out) {
  for (std::int64_t row = 0; row < block.rows; ++row)
    for (std::int64_t column = 0; column < kColumns; column += 16) {
      const From* from = in + row * block.row_step + column;
      const std::int64_t left = block.columns - column;
      float* to = out + row * kColumns + column;
      if (left >= 16)
        store(to, load(from));
      else
        store(to, left > 0 ? load(from, left) : f32x16{});
    }
}

template <class From>
MILLRACE_INLINE void pack(const From* in, const PackBlock& block, float* out) {
  if (block.column_step == 1) {
    pack_lines(in, block, out);
  } else {
    for (std::int64_t row = 0; row < block.rows; ++row)
      for (std::int64_t column = 0; column < kColumns; ++column) {
        const bool there = column < block.columns;
        out[row * kColumns + column] = there ? to_float(in[row * block.row_step + column * block.column_step]) : 0.0F;
      }
  }
  for (std::int64_t i = block.rows * kColumns; i < block.padded * kColumns; ++i) out[i] = 0.0F;
}

}  // namespace

namespace MILLRACE_ISA {

void pack_f32(const float* in, const PackBlock& block, float* out) { pack(in, block, out); }
void pack_widen(const BFloat16* in, const PackBlock& block, float* out) { pack(in, block, out); }

void pack_pairs(const BFloat16* in, const PackBlock& block, BFloat16* out) {
  for (std::int64_t row = 0; row < block.padded; row += 2)
    for (std::int64_t column = 0; column < kColumns; ++column)
      for (std::int64_t half = 0; half < 2; ++half) {
        const bool there = column < block.columns && row + half < block.rows;
        out[row * kColumns + 2 * column + half] = there ? in[(row + half) * block.row_step + column * block.column_step] : BFloat16{};
      }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
