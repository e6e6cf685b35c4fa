#include "kernels/elementwise.hpp"
#include "kernels/muon.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.muon";

struct Normalize {
  MuonNorm rule;
  const double* square;  // computed on the device shortly before
  __device__ float operator()(float x) const {
    const auto norm = static_cast<float>(sqrt(*square));
    return x / (rule.added ? norm + rule.epsilon : fmaxf(norm, rule.epsilon));
  }
};
struct Step {
  MuonStep rule;
  __device__ float operator()(float parameter, float x) const { return parameter * rule.keep - rule.rate * x; }
};

__global__ void __launch_bounds__(kThreads) polynomial(MuonPolynomial rule, const float* gram, float* value, std::int64_t side) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= side * side) return;
  const float entry = rule.b * gram[i] + rule.c * value[i];
  value[i] = i % side == i / side ? entry + rule.a : entry;
}

/// The momentum is rounded after the direction is computed from it.
template <class T>
__global__ void __launch_bounds__(kThreads) move_momentum(MuonMomentum rule, float* gradient, T* momentum, std::int64_t elements) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const float scaled = gradient[i] * rule.gradient_scale;
  const float m = rule.beta * static_cast<float>(momentum[i]) + rule.rest * scaled;
  momentum[i] = static_cast<T>(m);
  gradient[i] = rule.momentum_share * m + rule.gradient_share * scaled;
}

void muon_momentum(const ExecutionContext& context, const MuonMomentum& rule, const Tensor& gradient, const Tensor& momentum) {
  with_type(momentum.dtype, [&]<class T>(T) {
    launch(context, component, move_momentum<T>, dim3(blocks_of(gradient.elements(), kThreads)), dim3(kThreads), 0, rule,
           gradient.as<float>(), momentum.as<T>(), gradient.elements());
  });
}

void muon_normalize(const ExecutionContext& context, const MuonNorm& rule, const Tensor& square, const Tensor& x) {
  map<float, float>(context, component, x, x, Normalize{rule, square.as<double>()});
}

void muon_polynomial(const ExecutionContext& context, const MuonPolynomial& rule, const Tensor& gram, const Tensor& value) {
  launch(context, component, polynomial, dim3(blocks_of(gram.elements(), kThreads)), dim3(kThreads), 0, rule, gram.as<float>(),
         value.as<float>(), gram.shape[0]);
}

void muon_step(const ExecutionContext& context, const MuonStep& rule, const Tensor& x, const Tensor& parameter, const Tensor& gradient,
               const Tensor& copy) {
  map<float, float, float>(context, component, parameter, x, parameter, Step{rule});
  if (copy) table::convert(context, parameter, copy);
  table::fill_zero(context, gradient);
}

const InTable in_table[] = {
    {Backend::cuda, table::muon_momentum, muon_momentum},
    {Backend::cuda, table::muon_normalize, muon_normalize},
    {Backend::cuda, table::muon_polynomial, muon_polynomial},
    {Backend::cuda, table::muon_step, muon_step},
};

}  // namespace
}  // namespace millrace::kernels::cuda
