#pragma once

#include "kernels/base/stream.hpp"

namespace millrace::kernels::cuda {

struct Product;  // kernels/cuda/products.hpp

/// The product by a kernel of ours, for what the library has none: operands whose rows start at odd places, and sums over nothing. Sums in
/// fp32.
void plain_product(const Stream& stream, const char* who, const Product& product);

}  // namespace millrace::kernels::cuda
