#pragma once

#include "kernels/packing.hpp"

namespace millrace::kernels::cpu {

/// Blocks [begin, end) of 64 columns of kernels::pack, on the calling thread.
void pack_blocks(const Tensor& b, bool transpose, std::byte* packed, std::int64_t begin, std::int64_t end);

}  // namespace millrace::kernels::cpu
