#include "kernels/sinusoid.hpp"

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct AddSinusoid {
  const T* x;
  const std::int32_t* positions;
  const float* inverse_timescales;
  T* y;
  std::int64_t half;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t token = index / half, i = index % half, at = token * 2 * half + i;
    float sine, cosine;
    sincosf(static_cast<float>(positions[token]) * inverse_timescales[i], &sine, &cosine);
    store(y + at, load(x + at) + sine);
    store(y + at + half, load(x + at + half) + cosine);
  }
};

void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y) {
  constexpr const char* component = "kernels.add_sinusoid";
  const std::int64_t half = x.shape[1] / 2;
  with_type(x.dtype, [&]<class T>(T) {
    for_each(context, component, x.shape[0] * half,
             AddSinusoid<T>{x.as<T>(), positions.as<std::int32_t>(), inverse_timescales.as<float>(), y.as<T>(), half});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::add_sinusoid, add_sinusoid},
};

}  // namespace
}  // namespace millrace::kernels::cuda
