#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/launch.cuh"

/// Several elements per thread, moved 16 bytes at a time if the addresses allow it. The elements of a thread do not depend on
/// that.
namespace millrace::kernels::cuda {

template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T element[N];
};

/// Number of elements in 16 bytes.
template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

/// True if all of them may be moved 16 bytes at a time.
[[nodiscard]] inline bool packs_aligned(std::initializer_list<const void*> pointers) noexcept {
  for (const void* pointer : pointers)
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  return true;
}

/// Loads the first `count` of N elements; the rest are 0. Whole: count is N, and the address is a multiple of their bytes.
template <bool Whole, int N, class T>
__device__ __forceinline__ void load_pack(const T* x, std::int64_t count, float* value) {
  if constexpr (Whole) {
    constexpr int part = N < kPack<T> ? N : kPack<T>;
#pragma unroll
    for (int begin = 0; begin < N; begin += part) {
      const Pack<T, part> pack = *reinterpret_cast<const Pack<T, part>*>(x + begin);
#pragma unroll
      for (int i = 0; i < part; ++i) value[begin + i] = load(&pack.element[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = i < count ? load(x + i) : 0.0F;
  }
}

template <bool Whole, int N, class T>
__device__ __forceinline__ void store_pack(T* y, std::int64_t count, const float* value) {
  if constexpr (Whole) {
    constexpr int part = N < kPack<T> ? N : kPack<T>;
#pragma unroll
    for (int begin = 0; begin < N; begin += part) {
      Pack<T, part> pack;
#pragma unroll
      for (int i = 0; i < part; ++i) store(&pack.element[i], value[begin + i]);
      *reinterpret_cast<Pack<T, part>*>(y + begin) = pack;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) store(y + i, value[i]);
  }
}

/// Calls Body::at<whole>(i) for i = 0, n, 2n, … below `elements`, one thread for each; n is Body::pack. There is one branch
/// around all of a thread's work, so that it issues all loads before it waits for any.
template <class Body>
struct EachPack {
  Body body;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t i = index * Body::pack;
    if (body.aligned && body.elements - i >= Body::pack)
      body.template at<true>(i);
    else
      body.template at<false>(i);
  }
};
template <class Body>
void for_packs(const ExecutionContext& context, const char* component, const Body& body) {
  for_each(context, component, (body.elements + Body::pack - 1) / Body::pack, EachPack<Body>{body});
}

/// y[i] = function(x[i]), in fp32 with one rounding. Function: a struct with a __device__ call operator.
template <class Function, class X, class Y>
struct MapOne {
  static constexpr int pack = kPack<X> > kPack<Y> ? kPack<X> : kPack<Y>;
  Function function;
  const X* x;
  Y* y;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float value[n];
    load_pack<Whole, n>(x + i, elements - i, value);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] = function(value[k]);
    store_pack<Whole, n>(y + i, elements - i, value);
  }
};
template <class X, class Y, class Function>
void map(const ExecutionContext& context, const char* component, const Tensor& x, const Tensor& y, const Function& function) {
  for_packs(context, component, MapOne<Function, X, Y>{function, x.as<X>(), y.as<Y>(), y.elements(), packs_aligned({x.data, y.data})});
}

/// y[i] = function(a[i], b[i]); y may be a or b.
template <class Function, class A, class B, class Y>
struct MapTwo {
  static constexpr int pack = kPack<A> > kPack<B> ? kPack<A> : kPack<B>;
  Function function;
  const A* a;
  const B* b;
  Y* y;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float first[n], second[n];
    load_pack<Whole, n>(a + i, elements - i, first);
    load_pack<Whole, n>(b + i, elements - i, second);
#pragma unroll
    for (int k = 0; k < n; ++k) first[k] = function(first[k], second[k]);
    store_pack<Whole, n>(y + i, elements - i, first);
  }
};
template <class A, class B, class Y, class Function>
void map(const ExecutionContext& context, const char* component, const Tensor& a, const Tensor& b, const Tensor& y,
         const Function& function) {
  for_packs(context, component,
            MapTwo<Function, A, B, Y>{function, a.as<A>(), b.as<B>(), y.as<Y>(), y.elements(), packs_aligned({a.data, b.data, y.data})});
}

}  // namespace millrace::kernels::cuda
