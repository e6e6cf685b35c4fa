#pragma once

#include "kernels/base/execution_context.hpp"

namespace millrace::kernels::cuda {

struct Product;  // kernels/cuda/gemm_plans.hpp

/// The product by our own kernel, for cases that the library does not support: operands whose rows are not aligned, and an empty
/// depth. Sums are in fp32.
void plain_product(const ExecutionContext& context, const char* component, const Product& product);

}  // namespace millrace::kernels::cuda
