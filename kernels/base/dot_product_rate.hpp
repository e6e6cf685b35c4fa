#pragma once

namespace millrace::kernels {

/// Rate of the bf16 dot product (vdpbf16ps) over that of the fp32 multiply-add, both in full registers, on the calling thread: the least of
/// many short turns, 0.1 ms in all. About 1 where bf16 has twice the arithmetic of fp32; some server processors reach 0.5, and a product of
/// bf16 matrices is then slower by this instruction than widened to fp32. 0 where the compiler cannot say. Only on a processor that has
/// AVX-512 with bf16.
[[nodiscard]] double bf16_dot_product_rate();

}  // namespace millrace::kernels
