#include "kernels/hyper_gates.hpp"

#include "kernels/base/hyper_gates_token.hpp"
#include "kernels/cuda/vector.cuh"

// A thread computes a token, in double as on a CPU.
namespace millrace::kernels::cuda {
namespace {

struct Exponential {
  __device__ double operator()(double x) const { return exp(x); }
};
template <class T>
struct RoundTo {
  __device__ double operator()(double x) const { return rounded<T>(static_cast<float>(x)); }
};

template <class T>
__device__ void read_numbers(const T* x, std::int64_t count, double* numbers) {
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = load(x + i);
}
template <class T>
__device__ void write_numbers(const double* numbers, std::int64_t count, T* y) {
  for (std::int64_t i = 0; i < count; ++i) store(y + i, static_cast<float>(numbers[i]));
}

template <class T>
struct GatesOfToken {
  const T* x;
  T* y;
  std::int64_t from, to;  // numbers of a token
  HyperGatesOptions options;

  __device__ void operator()(std::int64_t token) const {
    double in[max_gate_numbers], out[max_gate_numbers];
    read_numbers(x + token * from, from, in);
    hyper_gates_of_token(in, options, out, Exponential{}, RoundTo<T>{});
    write_numbers(out, to, y + token * to);
  }
};

template <class T>
struct GatesGradientOfToken {
  const T* dy;
  const T* x;
  T* dx;
  std::int64_t from, to;
  HyperGatesOptions options;

  /// The matrices of the normalisation are computed again for every step: they would take too much of a thread's memory.
  __device__ void operator()(std::int64_t token) const {
    double in[max_gate_numbers], gradient[max_gate_numbers], out[max_gate_numbers];
    read_numbers(x + token * from, from, in);
    read_numbers(dy + token * to, to, gradient);
    hyper_gates_gradient_of_token<double>(gradient, in, options, nullptr, out, Exponential{});
    write_numbers(out, from, dx + token * from);
  }
};

void hyper_gates(const ExecutionContext& context, const Tensor& x, HyperGatesOptions options, const Tensor& y) {
  with_type(x.dtype, [&]<class T>(T) {
    for_each(context, "kernels.hyper_gates", x.shape[0], GatesOfToken<T>{x.as<T>(), y.as<T>(), x.shape[1], y.shape[1], options});
  });
}

void hyper_gates_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, HyperGatesOptions options,
                                const Tensor& dx) {
  with_type(x.dtype, [&]<class T>(T) {
    for_each(context, "kernels.hyper_gates_input_gradient", x.shape[0],
             GatesGradientOfToken<T>{dy.as<T>(), x.as<T>(), dx.as<T>(), x.shape[1], dy.shape[1], options});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::hyper_gates, hyper_gates},
    {Backend::cuda, table::hyper_gates_input_gradient, hyper_gates_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
