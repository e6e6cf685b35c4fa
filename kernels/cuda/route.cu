#include "kernels/route.hpp"

#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

/// A block is one warp, which has the numbers of a token in shared memory. Sums are taken by every lane alike, so that their order is that
/// of the contract.
constexpr int kRouteThreads = 32;

__device__ __forceinline__ float route_logistic(float x) { return 1.0F / (1.0F + expf(-x)); }

/// Below −20 the square root of log(1 + eᵘ) is that of eᵘ in fp32; there the quotient of its slope would be 0/0 in the end.
__device__ __forceinline__ float route_sqrt_softplus(float u) {
  return u < -20.0F ? expf(0.5F * u) : sqrtf(u > 20.0F ? u : log1pf(expf(u)));
}

__device__ __forceinline__ float route_sum(const float* x, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}

/// In place, by a warp; the sum in the order of the numbers.
__device__ void route_softmax(float* x, std::int64_t count) {
  const int lane = static_cast<int>(threadIdx.x);
  float top = -INFINITY;
  for (std::int64_t i = lane; i < count; i += kRouteThreads) top = fmaxf(top, x[i]);
  top = warp_maximum(top);
  for (std::int64_t i = lane; i < count; i += kRouteThreads) x[i] = expf(x[i] - top);
  __syncwarp();
  const float sum = route_sum(x, count);
  __syncwarp();
  for (std::int64_t i = lane; i < count; i += kRouteThreads) x[i] /= sum;
  __syncwarp();
}

/// Logits to p, in place, by a warp.
__device__ void route_score(RouterScore kind, float* x, std::int64_t count) {
  if (kind == RouterScore::softmax) {
    route_softmax(x, count);
  } else if (kind != RouterScore::logit) {
    for (std::int64_t i = threadIdx.x; i < count; i += kRouteThreads)
      x[i] = kind == RouterScore::sigmoid ? route_logistic(x[i]) : route_sqrt_softplus(x[i]);
    __syncwarp();
  }
}

/// The scores of the chosen to their weights before they are normalised, in place, by a warp.
__device__ void route_transform(RouterWeight weight, float* s, std::int64_t count) {
  if (weight == RouterWeight::softmax) {
    route_softmax(s, count);
  } else if (weight == RouterWeight::sigmoid) {
    for (std::int64_t k = threadIdx.x; k < count; k += kRouteThreads) s[k] = route_logistic(s[k]);
    __syncwarp();
  }
}

// -- the choice ---------------------------------------------------------------------------------------------------------------------------

/// A number's rank: the order of the numbers, both zeros equal, a NaN above +∞ (0xff800000). Rank 0 is below all of them.
__device__ __forceinline__ unsigned rank_of(float x) {
  const unsigned bits = __float_as_uint(x + 0.0F);
  if (x != x) return 0xff800001U;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Rank and place as one number, which is larger for the better candidate: of equal ranks the lower place is better.
using Candidate = unsigned long long;
__device__ __forceinline__ Candidate candidate(unsigned rank, std::int64_t place) {
  return static_cast<Candidate>(rank) << 32 | static_cast<Candidate>(0xffffffffU - static_cast<unsigned>(place));
}
__device__ __forceinline__ std::int64_t place_of(Candidate best) { return 0xffffffffU - static_cast<unsigned>(best); }
constexpr Candidate kAnyCandidate = ~Candidate{0};

/// The best of places [begin, end) that is worse than `previous`, by a warp, returned to all lanes.
__device__ Candidate next_best(const unsigned* ranks, std::int64_t begin, std::int64_t end, Candidate previous) {
  Candidate best = 0;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x); i < end; i += kRouteThreads) {
    const Candidate here = candidate(ranks[i], i);
    if (here < previous && here > best) best = here;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other = __shfl_xor_sync(0xffffffffU, best, distance);
    if (other > best) best = other;
  }
  return best;
}

template <class T>
struct RouteForward {
  const T* logits;
  const float* bias;  // or nullptr
  float* weights;
  std::int32_t* experts;
  std::int64_t count;
  RouteOptions options;
  FaultSlot* fault;
};

template <class T>
__global__ void __launch_bounds__(kRouteThreads) route_token(RouteForward<T> at) {
  const std::int64_t count = at.count, chosen = at.options.experts_per_token, token = blockIdx.x;
  float* const p = dynamic_shared<float>();
  auto* const ranks = reinterpret_cast<unsigned*>(p + count);
  unsigned* const group_ranks = ranks + count;
  const std::int64_t lane = threadIdx.x;
  for (std::int64_t i = lane; i < count; i += kRouteThreads) p[i] = load(at.logits + token * count + i);
  __syncwarp();
  route_score(at.options.score, p, count);
  const auto biased = [&](std::int64_t i) { return at.bias == nullptr ? p[i] : p[i] + at.bias[i]; };
  for (std::int64_t i = lane; i < count; i += kRouteThreads) ranks[i] = rank_of(biased(i));
  __syncwarp();

  if (at.options.groups > 1) {
    const std::int64_t each = count / at.options.groups;
    for (std::int64_t group = 0; group < at.options.groups; ++group) {
      float sum = 0;
      Candidate best = kAnyCandidate;
      for (std::int64_t i = 0; i < at.options.group_best; ++i) {
        best = next_best(ranks, group * each, (group + 1) * each, best);
        sum += biased(place_of(best));
      }
      if (lane == 0) group_ranks[group] = rank_of(sum);
    }
    __syncwarp();
    Candidate last = kAnyCandidate;
    for (std::int64_t kept = 0; kept < at.options.kept_groups; ++kept) last = next_best(group_ranks, 0, at.options.groups, last);
    for (std::int64_t i = lane; i < count; i += kRouteThreads)
      if (candidate(group_ranks[i / each], i / each) < last) ranks[i] = 0;
    __syncwarp();
  }

  // The weights' own memory holds the scores of the chosen until all of them are known.
  float* const w = at.weights + token * chosen;
  Candidate best = kAnyCandidate;
  for (std::int64_t k = 0; k < chosen; ++k) {
    std::int64_t expert = at.experts[token * chosen + k];
    if (!at.options.given) {
      best = next_best(ranks, 0, count, best);
      expert = place_of(best);
    }
    if (lane != 0) continue;
    if (expert < 0 || expert >= count) {  // only one that is given
      report(at.fault, FaultSlot::expert, static_cast<std::int32_t>(expert), token * chosen + k, count);
      continue;
    }
    at.experts[token * chosen + k] = static_cast<std::int32_t>(expert);
    w[k] = at.options.bias == RouterBias::score ? biased(expert) : p[expert];
  }
  __syncwarp();
  route_transform(at.options.weight, w, chosen);
  const float sum = route_sum(w, chosen) + at.options.sum_epsilon, divisor = divides_by(sum, at.options) ? sum : 1.0F;
  __syncwarp();
  for (std::int64_t k = lane; k < chosen; k += kRouteThreads) w[k] = w[k] / divisor * at.options.scale;
}

// -- gradients ----------------------------------------------------------------------------------------------------------------------------

template <class T>
struct RouteGradient {
  const float* d_weights;
  const T* logits;
  const float* bias;  // or nullptr
  const std::int32_t* experts;
  std::int64_t tokens, count;
  RouteOptions options;
};

/// Shared memory of the gradients of a token: of the chosen p, then s, which become the weights before they are normalised, and the
/// gradients that arrive at s; p of all experts, with a softmax over them.
struct ChosenNumbers {
  float *p, *s, *g, *all;

  __device__ ChosenNumbers(float* shared, std::int64_t chosen)
      : p(shared), s(shared + chosen), g(shared + 2 * chosen), all(shared + 3 * chosen) {}
  static std::size_t bytes(const RouteOptions& options, std::int64_t count) {
    const std::int64_t all = options.score == RouterScore::softmax ? count : 0;
    return static_cast<std::size_t>(3 * options.experts_per_token + all) * sizeof(float);
  }
};

__device__ __forceinline__ float route_product(const float* x, const float* y, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

/// Computes the numbers of a token, by a warp.
template <class T>
__device__ void differentiate_route(const RouteGradient<T>& at, std::int64_t token, const ChosenNumbers& c) {
  const std::int64_t chosen = at.options.experts_per_token, lane = threadIdx.x;
  const std::int32_t* const experts = at.experts + token * chosen;
  const T* const logits = at.logits + token * at.count;
  if (at.options.score == RouterScore::softmax) {
    for (std::int64_t i = lane; i < at.count; i += kRouteThreads) c.all[i] = load(logits + i);
    __syncwarp();
    route_softmax(c.all, at.count);
    for (std::int64_t k = lane; k < chosen; k += kRouteThreads) c.p[k] = c.all[experts[k]];
    __syncwarp();
  } else {
    for (std::int64_t k = lane; k < chosen; k += kRouteThreads) c.p[k] = load(logits + experts[k]);
    __syncwarp();
    route_score(at.options.score, c.p, chosen);
  }
  const auto score = [&](std::int64_t k) { return at.options.bias == RouterBias::score ? c.p[k] + at.bias[experts[k]] : c.p[k]; };
  for (std::int64_t k = lane; k < chosen; k += kRouteThreads) {
    c.s[k] = score(k);
    c.g[k] = at.d_weights[token * chosen + k] * at.options.scale;
  }
  __syncwarp();
  route_transform(at.options.weight, c.s, chosen);
  if (const float sum = route_sum(c.s, chosen) + at.options.sum_epsilon; divides_by(sum, at.options)) {
    float along = 0;
    for (std::int64_t k = 0; k < chosen; ++k) along += c.g[k] * (c.s[k] / sum);
    __syncwarp();
    for (std::int64_t k = lane; k < chosen; k += kRouteThreads) c.g[k] = (c.g[k] - along) / sum;
    __syncwarp();
  }
  if (at.options.weight == RouterWeight::softmax) {
    const float along = route_product(c.g, c.s, chosen);
    __syncwarp();
    for (std::int64_t k = lane; k < chosen; k += kRouteThreads) c.g[k] = c.s[k] * (c.g[k] - along);
    __syncwarp();
  }
  if (at.options.weight == RouterWeight::sigmoid) {
    for (std::int64_t k = lane; k < chosen; k += kRouteThreads) c.g[k] *= c.s[k] * route_logistic(-score(k));
    __syncwarp();
  }
}

template <class T>
__global__ void __launch_bounds__(kRouteThreads) route_gradient_token(RouteGradient<T> at, T* d_logits) {
  const std::int64_t chosen = at.options.experts_per_token, token = blockIdx.x, lane = threadIdx.x;
  const ChosenNumbers c(dynamic_shared<float>(), chosen);
  differentiate_route(at, token, c);
  const bool over_all = at.options.score == RouterScore::softmax;
  const float along = over_all ? route_product(c.g, c.p, chosen) : 0.0F;
  T* const row = d_logits + token * at.count;
  for (std::int64_t i = lane; i < at.count; i += kRouteThreads) store(row + i, over_all ? -along * c.all[i] : 0.0F);
  __syncwarp();  // before the chosen ones are overwritten
  for (std::int64_t k = lane; k < chosen; k += kRouteThreads) {
    const std::int64_t expert = at.experts[token * chosen + k];
    const float u = load(at.logits + token * at.count + expert), p = c.p[k];
    float du = c.g[k];
    if (over_all) du = p * (du - along);
    if (at.options.score == RouterScore::sigmoid) du *= p * route_logistic(-u);
    if (at.options.score == RouterScore::sqrt_softplus) du *= u < -20.0F ? 0.5F * p : route_logistic(u) / (2.0F * p);
    store(row + expert, du);
  }
}

/// One warp for each expert: its lanes look for the expert among the choices of 32 tokens at a time, and the warp adds the gradients of
/// those that chose it, in order.
template <class T>
__global__ void __launch_bounds__(kRouteThreads) route_bias_expert(RouteGradient<T> at, float* d_bias) {
  const std::int64_t chosen = at.options.experts_per_token, lane = threadIdx.x;
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const ChosenNumbers c(dynamic_shared<float>(), chosen);
  float sum = d_bias[expert];
  for (std::int64_t first = 0; first < at.tokens; first += kRouteThreads) {
    std::int64_t place = chosen;  // of the expert among the choices of this lane's token
    if (first + lane < at.tokens)
      for (std::int64_t k = 0; k < chosen; ++k)
        if (at.experts[(first + lane) * chosen + k] == expert) place = k;
    const unsigned found = __ballot_sync(0xffffffffU, place < chosen ? 1 : 0);
    for (int other = 0; other < kRouteThreads; ++other) {
      if ((found >> other & 1U) == 0) continue;
      const auto k = __shfl_sync(0xffffffffU, static_cast<int>(place), other);
      differentiate_route(at, first + other, c);
      sum += c.g[k];
      __syncwarp();  // before the next token's numbers
    }
  }
  if (lane == 0) d_bias[expert] = sum;
}

const float* bias_of(const Tensor* bias) { return bias == nullptr ? nullptr : bias->as<float>(); }

void route(const ExecutionContext& context, const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights,
           const Tensor& experts) {
  const std::int64_t tokens = logits.shape[0], count = logits.shape[1];
  if (tokens == 0) return;
  const auto shared = static_cast<std::size_t>(2 * count + options.groups) * sizeof(float);
  with_type(logits.dtype, [&]<class T>(T) {
    launch(context, "kernels.route", route_token<T>, dim3(blocks_of(tokens, 1)), dim3(kRouteThreads), shared,
           RouteForward<T>{logits.as<T>(), bias_of(bias), weights.as<float>(), experts.as<std::int32_t>(), count, options,
                           state_of(context).fault});
  });
}

template <class T>
RouteGradient<T> gradient_of(const Tensor& d_weights, const Tensor& logits, const Tensor* bias, const Tensor& experts,
                             const RouteOptions& options) {
  return {d_weights.as<float>(), logits.as<T>(), bias_of(bias), experts.as<std::int32_t>(), logits.shape[0], logits.shape[1], options};
}

void route_input_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor* bias,
                          const Tensor& experts, const RouteOptions& options, const Tensor& d_logits) {
  const std::int64_t tokens = logits.shape[0];
  if (tokens == 0) return;
  with_type(logits.dtype, [&]<class T>(T) {
    launch(context, "kernels.route_input_gradient", route_gradient_token<T>, dim3(blocks_of(tokens, 1)), dim3(kRouteThreads),
           ChosenNumbers::bytes(options, logits.shape[1]), gradient_of<T>(d_weights, logits, bias, experts, options), d_logits.as<T>());
  });
}

void route_bias_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor& bias,
                         const Tensor& experts, const RouteOptions& options, const Tensor& d_bias) {
  const std::int64_t count = logits.shape[1];
  with_type(logits.dtype, [&]<class T>(T) {
    launch(context, "kernels.route_bias_gradient", route_bias_expert<T>, dim3(blocks_of(count, 1)), dim3(kRouteThreads),
           ChosenNumbers::bytes(options, count), gradient_of<T>(d_weights, logits, &bias, experts, options), d_bias.as<float>());
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::route, route},
    {Backend::cuda, table::route_input_gradient, route_input_gradient},
    {Backend::cuda, table::route_bias_gradient, route_bias_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
