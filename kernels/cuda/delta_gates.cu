#include "kernels/delta_gates.hpp"

#include "kernels/cuda/column_sums.cuh"

namespace millrace::kernels::cuda {
namespace {

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

/// The decay of one element: its value and its derivative by a.
template <class T>
struct Decays {
  const T* a;
  const float* a_log;
  const float* dt_bias;
  std::int64_t heads;
  bool round_decay;

  __device__ __forceinline__ void at(std::int64_t i, float& value, float& slope) const {
    float bias = dt_bias[i % heads], log = a_log[i % heads];
    if (round_decay) bias = rounded<T>(bias), log = rounded<T>(log);
    const float x = load(a + i) + bias, rate = -expf(log);
    value = rate * (fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))));
    slope = rate * sigmoid(x);
  }
};

template <class T>
struct Forward {
  Decays<T> decays;
  const T* b;
  float* g;
  float* beta;
  __device__ void operator()(std::int64_t i) const {
    float value, slope;
    decays.at(i, value, slope);
    g[i] = decays.round_decay ? rounded<T>(value) : value;
    beta[i] = rounded<T>(sigmoid(load(b + i)));
  }
};

template <class T>
struct InputGradient {
  Decays<T> decays;
  const T* b;
  const float* dg;
  const float* dbeta;
  T* da;
  T* db;
  __device__ void operator()(std::int64_t i) const {
    float value, slope;
    decays.at(i, value, slope);
    store(da + i, slope * dg[i]);
    const float e = expf(-fabsf(load(b + i)));
    store(db + i, e / ((1.0F + e) * (1.0F + e)) * dbeta[i]);
  }
};

template <class T>
struct WeightTerms {
  static constexpr int sums = 2;
  Decays<T> decays;
  const float* dg;
  float* into[sums];
  __device__ __forceinline__ void operator()(std::int64_t token, std::int64_t head, float (&sum)[sums]) const {
    const std::int64_t i = token * decays.heads + head;
    float value, slope;
    decays.at(i, value, slope);
    sum[0] += value * dg[i];
    sum[1] += slope * dg[i];
  }
};

template <class T>
Decays<T> decays_of(const Tensor& a, const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options) {
  return {a.as<T>(), a_log.as<float>(), dt_bias.as<float>(), a.shape[1], options.round_decay};
}

void delta_gates_forward(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias,
                         DeltaGatesOptions options, const Tensor& g, const Tensor& beta) {
  with_type(a.dtype, [&]<class T>(T) {
    for_each(context, "kernels.delta_gates_forward", a.elements(),
             Forward<T>{decays_of<T>(a, a_log, dt_bias, options), b.as<T>(), g.as<float>(), beta.as<float>()});
  });
}

void delta_gates_input_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& dbeta, const Tensor& a, const Tensor& b,
                                const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& da, const Tensor& db) {
  with_type(a.dtype, [&]<class T>(T) {
    for_each(
        context, "kernels.delta_gates_input_gradient", a.elements(),
        InputGradient<T>{decays_of<T>(a, a_log, dt_bias, options), b.as<T>(), dg.as<float>(), dbeta.as<float>(), da.as<T>(), db.as<T>()});
  });
}

void delta_gates_weight_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& a, const Tensor& a_log,
                                 const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& d_a_log, const Tensor& d_dt_bias) {
  with_type(a.dtype, [&]<class T>(T) {
    add_column_sums(context, "kernels.delta_gates_weight_gradient", a.shape[0], a.shape[1],
                    WeightTerms<T>{decays_of<T>(a, a_log, dt_bias, options), dg.as<float>(), {d_a_log.as<float>(), d_dt_bias.as<float>()}});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::delta_gates_forward, delta_gates_forward},
    {Backend::cuda, table::delta_gates_input_gradient, delta_gates_input_gradient},
    {Backend::cuda, table::delta_gates_weight_gradient, delta_gates_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
