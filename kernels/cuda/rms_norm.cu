#include "kernels/rms_norm.hpp"

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/rows.cuh"

namespace millrace::kernels::cuda {
namespace {

/// The number of sets of weights: w is [D] or [k, D].
std::int64_t sets_of(const Tensor& w) { return w.shape.rank() == 2 ? w.shape[0] : 1; }

template <class T>
struct RmsForward {
  const T* x;
  const float* w;
  T* y;
  float* r;
  std::int64_t rows, width, sets;
  float epsilon, offset;
  bool round_first;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    constexpr int n = kPack<T>;
    const T* row_x = x + row * width;
    T* row_y = y + row * width;
    const float* row_w = w + row % sets * width;
    const float inverse = 1.0F / sqrtf(row_squares<Lanes, Whole>(row_x, width) / static_cast<float>(width) + epsilon);
    if (lane_of_row<Lanes>() == 0) r[row] = inverse;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float value[n], weight[n];
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(row_w + d, width - d, weight);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float normal = value[k] * inverse;
        value[k] = (round_first ? rounded<T>(normal) : normal) * (weight[k] + offset);
      }
      store_pack<Whole, n>(row_y + d, width - d, value);
    });
  }
};

template <class T>
struct RmsGradient {
  const T* dy;
  const T* x;
  const float* w;
  const float* r;
  const T* addend;  // or nullptr
  T* dx;
  std::int64_t rows, width, sets;
  float offset;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    constexpr int n = kPack<T>;
    const T* row_dy = dy + row * width;
    const T* row_x = x + row * width;
    const float* row_w = w + row % sets * width;
    float products = 0;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float gradient[n], value[n], weight[n];
      load_pack<Whole, n>(row_dy + d, width - d, gradient);
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(row_w + d, width - d, weight);
#pragma unroll
      for (int k = 0; k < n; ++k) products += gradient[k] * (weight[k] + offset) * value[k];
    });
    const float inverse = r[row];
    const float along = row_sum<Lanes>(products) / static_cast<float>(width) * inverse * inverse;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float gradient[n], value[n], weight[n], added[n] = {};
      load_pack<Whole, n>(row_dy + d, width - d, gradient);
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(row_w + d, width - d, weight);
      if (addend != nullptr) load_pack<Whole, n>(addend + row * width + d, width - d, added);
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] * (weight[k] + offset) - value[k] * along) + added[k];
      store_pack<Whole, n>(dx + row * width + d, width - d, value);
    });
  }
};

template <class T>
struct RmsTerms {
  static constexpr int sums = 1;
  const T* dy;
  const T* x;
  const float* r;
  std::int64_t width, sets, set;  // of the weights: row t of the sums is row t·sets + set of x
  float* into[sums];
  __device__ __forceinline__ void operator()(std::int64_t row, std::int64_t column, float (&sum)[sums]) const {
    const std::int64_t place = row * sets + set, at = place * width + column;
    sum[0] += load(dy + at) * load(x + at) * r[place];
  }
};

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  constexpr const char* component = "kernels.rms_norm_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    for_rows<T>(context, component, {x.data, w.data, y.data},
                RmsForward<T>{x.as<T>(), w.as<float>(), y.as<T>(), r.as<float>(), rows, width, sets_of(w), options.epsilon, options.offset,
                              options.round_first});
  });
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  constexpr const char* component = "kernels.rms_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    const T* added = addend == nullptr ? nullptr : addend->as<T>();
    for_rows<T>(
        context, component, {dy.data, x.data, w.data, added, dx.data},
        RmsGradient<T>{dy.as<T>(), x.as<T>(), w.as<float>(), r.as<float>(), added, dx.as<T>(), rows, width, sets_of(w), options.offset});
  });
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  constexpr const char* component = "kernels.rms_norm_weight_gradient";
  const std::int64_t width = x.shape[1], sets = sets_of(dw), rows = x.shape[0] / sets;
  with_type(x.dtype, [&]<class T>(T) {
    for (std::int64_t set = 0; set < sets; ++set)
      add_column_sums(context, component, rows, width,
                      RmsTerms<T>{dy.as<T>(), x.as<T>(), r.as<float>(), width, sets, set, {dw.as<float>() + set * width}});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::rms_norm_forward, rms_norm_forward},
    {Backend::cuda, table::rms_norm_input_gradient, rms_norm_input_gradient},
    {Backend::cuda, table::rms_norm_weight_gradient, rms_norm_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
