#include "kernels/matmul.hpp"

#include "kernels/base/check.hpp"
#include "kernels/bias.hpp"
#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/gemm_plans.hpp"

namespace millrace::kernels::cuda {
namespace {

void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch /*scratch*/,
            const Tensor* addend) {
  constexpr const char* component = "kernels.matmul";
  MILLRACE_CHECK(!options.packed_b, ExitCode::internal, component, "a packed operand on {}, expected a row-major one",
                 to_string(context.device()));
  const void* added = addend != nullptr ? addend->data : nullptr;
  const bool biased = state_of(context).products->multiply(context, component,
                                                           {.m = c.shape[0],
                                                            .n = c.shape[1],
                                                            .k = a.shape[options.transpose_a ? 0 : 1],
                                                            .transpose_a = options.transpose_a,
                                                            .transpose_b = options.transpose_b,
                                                            .accumulate = options.accumulate,
                                                            .operands = a.dtype,
                                                            .result = c.dtype,
                                                            .a = a.data,
                                                            .b = b.data,
                                                            .c = c.data,
                                                            .addend = options.bias ? nullptr : added,
                                                            .bias = options.bias ? static_cast<const float*>(added) : nullptr});
  if (options.bias && !biased) kernels::bias_forward(context, c, *addend, c);
}

const InTable in_table[] = {
    {Backend::cuda, table::matmul, matmul},
};

}  // namespace
}  // namespace millrace::kernels::cuda
