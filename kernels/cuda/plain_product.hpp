#pragma once

#include "kernels/base/execution_context.hpp"

namespace millrace::kernels::cuda {

struct Product;  // kernels/cuda/gemm_plans.hpp

/// The product by a kernel of ours, for what the library has none: operands whose rows start at odd places, and sums over nothing. Sums in
/// fp32.
void plain_product(const ExecutionContext& context, const char* who, const Product& product);

}  // namespace millrace::kernels::cuda
