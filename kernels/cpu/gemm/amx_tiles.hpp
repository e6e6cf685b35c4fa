#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/store_rounded.hpp"

/// The tile registers of a processor with AMX (Intel, Architecture Instruction Set Extensions, chapter 3): eight of 16 rows of 64 bytes,
/// here always whole. Only for sources of millrace_tile_kernel(). The instructions are written out, because compilers' intrinsics take
/// the number of a register from a macro only, which a template cannot fill in.
namespace millrace::kernels::cpu {
namespace {

/// While it lives, the calling thread's tile registers have that shape; afterwards they are free, which saves the system from saving
/// them. tile_model.hpp has the same functions in plain C++.
class Tiles {
 public:
  [[gnu::always_inline]] Tiles() {
    struct alignas(64) {
      std::uint8_t palette, start, reserved[14];
      std::uint16_t bytes[16];
      std::uint8_t rows[16];
    } shape{};
    shape.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      shape.bytes[tile] = 64;
      shape.rows[tile] = 16;
    }
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  [[gnu::always_inline]] ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int tile>
  [[gnu::always_inline]] void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  /// Loads 16 rows of 64 bytes, `step` bytes from one to the next.
  template <int tile>
  [[gnu::always_inline]] void load(const void* from, std::int64_t step) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(tile) : "memory");
  }
  template <int tile>
  [[gnu::always_inline]] void store(void* to, std::int64_t step) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(step), "i"(tile) : "memory");
  }
  /// sum[i][j] += Σ over 16 pairs p of a[i][2p]·b[p][2j] + a[i][2p + 1]·b[p][2j + 1]: sum is 16 x 16 fp32; a is 16 rows of 32 bf16, b 16
  /// pairs of rows of 16 bf16, interleaved.
  template <int sum, int a, int b>
  [[gnu::always_inline]] void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
};

}  // namespace
}  // namespace millrace::kernels::cpu
