#include "kernels/hyper_streams.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

/// Sizes of a call: k streams of `width` features for each token.
struct Streams {
  std::int64_t width, k;
  /// The token that feature `i` of the single vectors belongs to, and the place of this feature in stream 0.
  __device__ std::int64_t token(std::int64_t i) const { return i / width; }
  __device__ std::int64_t first(std::int64_t i) const { return i / width * k * width + i % width; }
};

Streams streams_of(const Tensor& streams, const Tensor& one) { return {one.shape[1], streams.shape[1] / one.shape[1]}; }

template <class T>
struct Expand {
  const T* x;
  T* streams;
  Streams sizes;
  __device__ void operator()(std::int64_t i) const {
    for (std::int64_t s = 0; s < sizes.k; ++s) streams[sizes.first(i) + s * sizes.width] = x[i];
  }
};

/// Σ_i weights[i] · X_i, all weights 1 if there are none.
template <class T>
struct Collect {
  const T* streams;
  const T* weights;
  T* y;
  Streams sizes;
  __device__ void operator()(std::int64_t i) const {
    float sum = 0;
    for (std::int64_t s = 0; s < sizes.k; ++s) {
      const float weight = weights == nullptr ? 1.0F : load(weights + sizes.token(i) * sizes.k + s);
      sum += weight * load(streams + sizes.first(i) + s * sizes.width);
    }
    store(y + i, sum);
  }
};

template <class T>
struct CollectGradient {
  const T* dy;
  const T* pre;
  T* d_streams;
  Streams sizes;
  __device__ void operator()(std::int64_t i) const {
    const float gradient = load(dy + i);
    for (std::int64_t s = 0; s < sizes.k; ++s)
      store(d_streams + sizes.first(i) + s * sizes.width, load(pre + sizes.token(i) * sizes.k + s) * gradient);
  }
};

template <class T>
struct Spread {
  const T* streams;
  const T* v;
  const T* post;
  const T* map;
  T* y;
  Streams sizes;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t k = sizes.k, t = sizes.token(i), first = sizes.first(i);
    for (std::int64_t m = 0; m < k; ++m) {
      float sum = load(post + t * k + m) * load(v + i);
      for (std::int64_t s = 0; s < k; ++s) sum += load(map + (t * k + s) * k + m) * load(streams + first + s * sizes.width);
      store(y + first + m * sizes.width, sum);
    }
  }
};

/// d_streams of spread.
template <class T>
struct SpreadBack {
  const T* dy;
  const T* map;
  T* d_streams;
  Streams sizes;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t k = sizes.k, t = sizes.token(i), first = sizes.first(i);
    for (std::int64_t s = 0; s < k; ++s) {
      float sum = 0;
      for (std::int64_t m = 0; m < k; ++m) sum += load(map + (t * k + s) * k + m) * load(dy + first + m * sizes.width);
      store(d_streams + first + s * sizes.width, sum);
    }
  }
};

/// products[t, a, b] = ⟨x[t, a], y[t, b]⟩ of xs and ys vectors of `width` features for each token; a warp computes one.
template <class T>
__global__ void __launch_bounds__(kThreads)
    vector_products(const T* x, const T* y, std::int64_t xs, std::int64_t ys, std::int64_t width, std::int64_t count, T* products) {
  const std::int64_t product = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (product >= count) return;
  const std::int64_t token = product / (xs * ys), a = product / ys % xs, b = product % ys;
  const T* const left = x + (token * xs + a) * width;
  const T* const right = y + (token * ys + b) * width;
  float sum = 0;
  for (std::int64_t d = threadIdx.x % 32; d < width; d += 32) sum += load(left + d) * load(right + d);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) store(products + product, sum);
}

template <class T>
void multiply_vectors(const ExecutionContext& context, const char* component, const Tensor& x, const Tensor& y, std::int64_t xs,
                      std::int64_t ys, const Tensor& products) {
  const std::int64_t count = products.elements();
  if (count == 0) return;
  launch(context, component, vector_products<T>, dim3(blocks_of(count * 32, kThreads)), dim3(kThreads), 0, static_cast<const T*>(x.as<T>()),
         static_cast<const T*>(y.as<T>()), xs, ys, x.shape[1] / xs, count, products.as<T>());
}

void expand_streams(const ExecutionContext& context, const Tensor& x, const Tensor& streams) {
  with_type(x.dtype, [&]<class T>(T) {
    for_each(context, "kernels.expand_streams", x.elements(), Expand<T>{x.as<T>(), streams.as<T>(), streams_of(streams, x)});
  });
}

void reduce_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& y) {
  with_type(y.dtype, [&]<class T>(T) {
    for_each(context, "kernels.reduce_streams", y.elements(), Collect<T>{streams.as<T>(), nullptr, y.as<T>(), streams_of(streams, y)});
  });
}

void collect_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& pre, const Tensor& y) {
  with_type(y.dtype, [&]<class T>(T) {
    for_each(context, "kernels.collect_streams", y.elements(), Collect<T>{streams.as<T>(), pre.as<T>(), y.as<T>(), streams_of(streams, y)});
  });
}

void collect_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& pre,
                              const Tensor& d_streams, const Tensor& d_pre) {
  constexpr const char* component = "kernels.collect_streams_gradient";
  with_type(dy.dtype, [&]<class T>(T) {
    const Streams sizes = streams_of(streams, dy);
    for_each(context, component, dy.elements(), CollectGradient<T>{dy.as<T>(), pre.as<T>(), d_streams.as<T>(), sizes});
    multiply_vectors<T>(context, component, streams, dy, sizes.k, 1, d_pre);
  });
}

void spread_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map,
                    const Tensor& y) {
  with_type(v.dtype, [&]<class T>(T) {
    for_each(context, "kernels.spread_streams", v.elements(),
             Spread<T>{streams.as<T>(), v.as<T>(), post.as<T>(), map.as<T>(), y.as<T>(), streams_of(streams, v)});
  });
}

void spread_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& v, const Tensor& post,
                             const Tensor& map, const Tensor& d_streams, const Tensor& dv, const Tensor& d_post, const Tensor& d_map) {
  constexpr const char* component = "kernels.spread_streams_gradient";
  with_type(v.dtype, [&]<class T>(T) {
    const Streams sizes = streams_of(streams, v);
    for_each(context, component, v.elements(), SpreadBack<T>{dy.as<T>(), map.as<T>(), d_streams.as<T>(), sizes});
    for_each(context, component, v.elements(), Collect<T>{dy.as<T>(), post.as<T>(), dv.as<T>(), sizes});
    multiply_vectors<T>(context, component, v, dy, 1, sizes.k, d_post);
    multiply_vectors<T>(context, component, streams, dy, sizes.k, sizes.k, d_map);
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::expand_streams, expand_streams},   {Backend::cuda, table::reduce_streams, reduce_streams},
    {Backend::cuda, table::collect_streams, collect_streams}, {Backend::cuda, table::collect_streams_gradient, collect_streams_gradient},
    {Backend::cuda, table::spread_streams, spread_streams},   {Backend::cuda, table::spread_streams_gradient, spread_streams_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
