#include "kernels/short_convolution.hpp"

#include "kernels/cuda/column_sums.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T, class W>
struct Convolution {
  const T* x;
  const W* w;
  const std::int32_t* segments;
  std::int64_t tokens, sequence, channels;
  int taps, dilation;
  bool silu, reset;

  __device__ __forceinline__ bool begins(std::int64_t t) const { return t % sequence == 0 || (reset && segments[t] != segments[t - 1]); }
  /// How many of the taps at token t lie on tokens that it sees, its own among them.
  __device__ __forceinline__ int reach(std::int64_t t) const {
    const int last = (taps - 1) * dilation;
    int back = 0;
    while (back < last && !begins(t - back)) ++back;
    return back / dilation + 1;
  }
  __device__ __forceinline__ float weight(std::int64_t n, int j) const { return load(w + n * taps + j); }
  /// The convolution at token t, rounded to x's dtype.
  __device__ __forceinline__ float sum(std::int64_t t, std::int64_t n) const {
    float sum = 0;
    for (int distance = reach(t) - 1; distance >= 0; --distance)
      sum += weight(n, taps - 1 - distance) * load(x + (t - distance * dilation) * channels + n);
    return rounded<T>(sum);
  }
  /// The gradient of the sum at token t.
  __device__ __forceinline__ float upstream(const T* dy, std::int64_t t, std::int64_t n) const {
    const float gradient = load(dy + t * channels + n);
    if (!silu) return gradient;
    const float c = sum(t, n), s = 1.0F / (1.0F + expf(-c));
    return gradient * (s * (1.0F + c * (1.0F - s)));
  }
};

template <class T, class W>
struct Forward {
  Convolution<T, W> at;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const float c = at.sum(i / at.channels, i % at.channels);
    store(y + i, at.silu ? c / (1.0F + expf(-c)) : c);
  }
};

template <class T, class W>
struct InputGradient {
  Convolution<T, W> at;
  const T* dy;
  T* dx;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t t = i / at.channels, n = i % at.channels;
    float sum = 0;
    const int last = (at.taps - 1) * at.dilation;
    for (int ahead = 0; ahead <= last; ++ahead) {
      const std::int64_t later = t + ahead;
      if (ahead > 0 && (later >= at.tokens || at.begins(later))) break;
      if (ahead % at.dilation == 0) sum += at.weight(n, at.taps - 1 - ahead / at.dilation) * at.upstream(dy, later, n);
    }
    store(dx + i, sum);
  }
};

/// Every `step`-th float: a tap of all channels.
struct Tap {
  float* first;
  std::int64_t step;
  __device__ __forceinline__ float& operator[](std::int64_t channel) const { return first[channel * step]; }
};

/// Taps first … first + Count − 1.
template <int Count, class T, class W>
struct WeightTerms {
  static constexpr int sums = Count;
  Convolution<T, W> at;
  const T* dy;
  int first;
  Tap into[sums];
  __device__ __forceinline__ void operator()(std::int64_t t, std::int64_t n, float (&sum)[sums]) const {
    const float gradient = at.upstream(dy, t, n);
    const int reach = at.reach(t);
    for (int k = 0; k < sums; ++k) {
      const int distance = at.taps - 1 - first - k;
      if (distance < reach) sum[k] += gradient * load(at.x + (t - distance * at.dilation) * at.channels + n);
    }
  }
};

template <int Count, class T, class W>
void add_taps(const ExecutionContext& context, const Convolution<T, W>& at, const T* dy, int first, float* dw) {
  WeightTerms<Count, T, W> terms{at, dy, first, {}};
  for (int k = 0; k < Count; ++k) terms.into[k] = {dw + first + k, at.taps};
  add_column_sums(context, "kernels.short_convolution_weight_gradient", at.tokens, at.channels, terms);
}

/// Calls body(convolution) with the types of x and w.
template <class Body>
void with_convolution(const Tensor& x, const Tensor& w, const Tensor& segments, ShortConvolutionOptions options, Body&& body) {
  with_type(x.dtype, [&]<class T>(T) {
    with_type(w.dtype, [&]<class W>(W) {
      body(Convolution<T, W>{x.as<T>(), w.as<W>(), segments.as<std::int32_t>(), x.shape[0], options.sequence, x.shape[1],
                             static_cast<int>(w.shape[w.shape.rank() - 1]), static_cast<int>(options.dilation), options.silu,
                             options.reset_at_segments && !options.one_segment});
    });
  });
}

void short_convolution_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& segments,
                               ShortConvolutionOptions options, const Tensor& y) {
  with_convolution(x, w, segments, options, [&]<class T, class W>(const Convolution<T, W>& at) {
    for_each(context, "kernels.short_convolution_forward", x.elements(), Forward<T, W>{at, y.as<T>()});
  });
}

void short_convolution_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const Tensor& segments, ShortConvolutionOptions options, const Tensor& dx) {
  with_convolution(x, w, segments, options, [&]<class T, class W>(const Convolution<T, W>& at) {
    for_each(context, "kernels.short_convolution_input_gradient", x.elements(), InputGradient<T, W>{at, dy.as<T>(), dx.as<T>()});
  });
}

void short_convolution_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                       const Tensor& segments, ShortConvolutionOptions options, const Tensor& dw) {
  with_convolution(x, w, segments, options, [&]<class T, class W>(const Convolution<T, W>& at) {
    for (int first = 0; first < at.taps; first += 4) switch (at.taps - first) {
        case 1:
          add_taps<1>(context, at, dy.as<T>(), first, dw.as<float>());
          break;
        case 2:
          add_taps<2>(context, at, dy.as<T>(), first, dw.as<float>());
          break;
        case 3:
          add_taps<3>(context, at, dy.as<T>(), first, dw.as<float>());
          break;
        default:
          add_taps<4>(context, at, dy.as<T>(), first, dw.as<float>());
      }
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::short_convolution_forward, short_convolution_forward},
    {Backend::cuda, table::short_convolution_input_gradient, short_convolution_input_gradient},
    {Backend::cuda, table::short_convolution_weight_gradient, short_convolution_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
