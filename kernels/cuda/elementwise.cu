#include "kernels/elementwise.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Multiply {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  with_type(y.dtype, [&]<class T>(T) { map<T, T, T>(context, "kernels.add", a, b, y, Sum{}); });
}

void scale(const ExecutionContext& context, const Tensor& x, ScaleOptions options, const Tensor& y) {
  with_type(x.dtype, [&]<class T>(T) { map<T, T>(context, "kernels.scale", x, y, Multiply{options.factor}); });
}

void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator) {
  with_type(x.dtype, [&]<class T>(T) { map<float, T, float>(context, "kernels.accumulate", accumulator, x, accumulator, Sum{}); });
}

void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  constexpr const char* component = "kernels.convert";
  if (x.dtype == y.dtype) {
    if (x.bytes() > 0 && x.data != y.data)
      check_cuda(cudaMemcpyAsync(y.data, x.data, x.bytes(), cudaMemcpyDefault, compute_lane(context)), component, "copy");
  } else if (y.dtype == DType::bf16) {
    map<float, __nv_bfloat16>(context, component, x, y, Same{});
  } else {
    map<__nv_bfloat16, float>(context, component, x, y, Same{});
  }
}

void fill_zero(const ExecutionContext& context, const Tensor& y) {
  if (y.bytes() > 0) check_cuda(cudaMemsetAsync(y.data, 0, y.bytes(), compute_lane(context)), "kernels.fill_zero", "fill");
}

const InTable in_table[] = {
    {Backend::cuda, table::add, add},         {Backend::cuda, table::scale, scale},         {Backend::cuda, table::accumulate, accumulate},
    {Backend::cuda, table::convert, convert}, {Backend::cuda, table::fill_zero, fill_zero},
};

}  // namespace
}  // namespace millrace::kernels::cuda
