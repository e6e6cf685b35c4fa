#pragma once

namespace millrace::kernels {

/// Ratio of the throughput of the bf16 dot product (vdpbf16ps) to that of the fp32 multiply-add, both on full registers, on the
/// calling thread: the minimum of many short measurements, 0.1 ms in total. It is about 1 on a processor with twice the
/// arithmetic in bf16; on some server processors it is 0.5, and products of bf16 matrices are then slower with this instruction
/// than widened to fp32. 0 if the compiler does not support the instruction. Call it only on a processor that has AVX-512 with
/// bf16.
[[nodiscard]] double bf16_dot_product_rate();

}  // namespace millrace::kernels
