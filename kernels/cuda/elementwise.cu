#include "kernels/elementwise.hpp"

#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct AddElements {
  static constexpr int pack = kPack<T>;
  const T* a;
  const T* b;
  T* y;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float first[n], second[n];
    load_pack<Whole, n>(a + i, elements - i, first);
    load_pack<Whole, n>(b + i, elements - i, second);
#pragma unroll
    for (int k = 0; k < n; ++k) first[k] += second[k];
    store_pack<Whole, n>(y + i, elements - i, first);
  }
};

template <class T>
struct ScaleElements {
  static constexpr int pack = kPack<T>;
  const T* x;
  T* y;
  float factor;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float value[n];
    load_pack<Whole, n>(x + i, elements - i, value);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] *= factor;
    store_pack<Whole, n>(y + i, elements - i, value);
  }
};

template <class T>
struct AccumulateElements {
  static constexpr int pack = kPack<T>;
  const T* x;
  float* accumulator;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float sum[n], value[n];
    load_pack<Whole, n>(accumulator + i, elements - i, sum);
    load_pack<Whole, n>(x + i, elements - i, value);
#pragma unroll
    for (int k = 0; k < n; ++k) sum[k] += value[k];
    store_pack<Whole, n>(accumulator + i, elements - i, sum);
  }
};

template <class From, class To>
struct ConvertElements {
  static constexpr int pack = kPack<__nv_bfloat16>;
  const From* x;
  To* y;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    float value[pack];
    load_pack<Whole, pack>(x + i, elements - i, value);
    store_pack<Whole, pack>(y + i, elements - i, value);
  }
};

template <class From, class To>
void convert_elements(const Stream& stream, const char* who, const Tensor& x, const Tensor& y) {
  using Body = ConvertElements<From, To>;
  for_packs(stream, who, Body{x.as<From>(), y.as<To>(), x.elements(), packs_aligned({x.data, y.data})});
}

}  // namespace

void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& y) {
  constexpr const char* who = "kernels.add";
  with_type(y.dtype, [&]<class T>(T) {
    for_packs(stream, who, AddElements<T>{a.as<T>(), b.as<T>(), y.as<T>(), y.elements(), packs_aligned({a.data, b.data, y.data})});
  });
}

void scale(const Stream& stream, const Tensor& x, float factor, const Tensor& y) {
  constexpr const char* who = "kernels.scale";
  with_type(x.dtype, [&]<class T>(T) {
    for_packs(stream, who, ScaleElements<T>{x.as<T>(), y.as<T>(), factor, x.elements(), packs_aligned({x.data, y.data})});
  });
}

void accumulate(const Stream& stream, const Tensor& x, const Tensor& accumulator) {
  constexpr const char* who = "kernels.accumulate";
  with_type(x.dtype, [&]<class T>(T) {
    for_packs(stream, who,
              AccumulateElements<T>{x.as<T>(), accumulator.as<float>(), x.elements(), packs_aligned({x.data, accumulator.data})});
  });
}

void convert(const Stream& stream, const Tensor& x, const Tensor& y) {
  constexpr const char* who = "kernels.convert";
  if (x.dtype == y.dtype) {
    if (x.bytes() > 0 && x.data != y.data)
      check_cuda(cudaMemcpyAsync(y.data, x.data, x.bytes(), cudaMemcpyDeviceToDevice, compute_lane(stream)), who, "copy");
  } else if (y.dtype == DType::bf16) {
    convert_elements<float, __nv_bfloat16>(stream, who, x, y);
  } else {
    convert_elements<__nv_bfloat16, float>(stream, who, x, y);
  }
}

void fill_zero(const Stream& stream, const Tensor& y) {
  if (y.bytes() > 0) check_cuda(cudaMemsetAsync(y.data, 0, y.bytes(), compute_lane(stream)), "kernels.fill_zero", "fill");
}

}  // namespace millrace::kernels::cuda
