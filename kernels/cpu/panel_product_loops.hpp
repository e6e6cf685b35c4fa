#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// c [m, n] = a · op(b), in fp32; a [m, k], b [k, n], or [n, k] where transposed. Steps are floats from one stored row to the next.
struct PanelProduct {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t a_step;
  const float* b;
  std::int64_t b_step;
  bool transpose_b;
  float* c;
  std::int64_t c_step;
  bool accumulate;           // c += instead
  const float* addend;       // added once, or null
  std::int64_t addend_step;  // 0: a row that is added to every row
};

/// Columns of a panel of b, and the parts into which k, n and m are cut. A part of b is copied so that the product reads it in order, and
/// so is a part of a whose rows are far apart: they would share few lines of the caches.
inline constexpr std::int64_t kPanelColumns = 16, kPanelDepth = 256, kPanelWidth = 512, kPanelRows = 240;

/// Floats of the memory that a product needs. They do not depend on m and do not shrink when n or k grow.
[[nodiscard]] inline std::int64_t panel_floats(std::int64_t n, std::int64_t k) {
  const std::int64_t columns = (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  return ((columns < kPanelWidth ? columns : kPanelWidth) + kPanelRows) * (k < kPanelDepth ? k : kPanelDepth);
}

/// Each element of c is summed in order of k, in parts of kPanelDepth that are added in order, so its bits depend on its row of a, its
/// column of op(b), what is added to it and the instruction set alone: not on its place or on m and n.
MILLRACE_CPU_KERNEL(panel_product, void(const PanelProduct& product, float* memory));

}  // namespace millrace::kernels::cpu
