// delta_bench [threads [json]]: the gated delta rule of Qwen3-Next and Qwen3.5, chunk by chunk, beside the recurrence token by token (plain
// loops in fp32 on the same threads, head by head): milliseconds, thousands of tokens per second and GFLOP/s of the forward and of the
// gradient, and how many times faster the chunked forward is. FLOPs are those of kernels/gated_delta_rule.hpp. With json it measures one
// size, that of compare_peers.sh, and prints a line of JSON: the milliseconds of a forward and of a forward with its gradient, and how far
// the results and the gradients of the chunks are from those of the recurrence.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/gated_delta_rule.hpp"

namespace {

using namespace millrace::kernels;

struct Case {
  std::int64_t sequence, key_heads, value_heads, width;
  DType dtype;
};

struct Operands {
  Operands(const Case& c, int threads) : sizes(c) {
    const Shape keys{c.sequence, c.key_heads, c.width}, values{c.sequence, c.value_heads, c.width}, numbers{c.sequence, c.value_heads};
    // Keys of a length near 1, decays and betas inside of their ranges.
    const float unit = std::sqrt(3.0F / static_cast<float>(c.width));
    q = make(c.dtype, keys, -unit, unit), k = make(c.dtype, keys, -unit, unit), v = make(c.dtype, values, -1, 1);
    d_o = make(c.dtype, values, -1, 1), g = make(DType::f32, numbers, -0.2F, 0), beta = make(DType::f32, numbers, 0.1F, 0.9F);
    segments = make(DType::i32, {c.sequence}, 0, 0);
    o = make(c.dtype, values, 0, 0), dq = make(c.dtype, keys, 0, 0), dk = make(c.dtype, keys, 0, 0), dv = make(c.dtype, values, 0, 0);
    dg = make(DType::f32, numbers, 0, 0), dbeta = make(DType::f32, numbers, 0, 0);
    options = {.sequence = c.sequence, .head_k_dim = c.width, .head_v_dim = c.width, .scale = 0.088F, .one_segment = true};
    scratch = Buffer(gated_delta_rule_gradient_scratch_bytes(keys, values, options, threads));
  }
  Tensor make(DType dtype, const Shape& shape, float low, float high) {
    Tensor tensor{nullptr, dtype, shape, MemorySpace::host};
    buffers.emplace_back(tensor.bytes());
    tensor.data = buffers.back().data();
    for (std::int64_t i = 0; i < tensor.elements() && low < high; ++i) {
      seed = seed * 1664525U + 1013904223U;
      const float value = low + (high - low) * static_cast<float>(seed >> 8) / 16777216.0F;
      if (dtype == DType::bf16)
        tensor.as<BFloat16>()[i] = to_bfloat16(value);
      else
        tensor.as<float>()[i] = value;
    }
    return tensor;
  }
  Case sizes;
  std::vector<Buffer> buffers;
  std::uint32_t seed = 1;
  Tensor q, k, v, d_o, g, beta, segments, o, dq, dk, dv, dg, dbeta;
  GatedDeltaRuleOptions options;
  Buffer scratch;
};

/// The recurrence of one value head in fp32: rows of the state are keys, so that its loops are over consecutive values.
void recurrence(const Operands& at, std::int64_t head, float* state, float* error, float* result) {
  const Case& c = at.sizes;
  const std::int64_t width = c.width;
  std::fill_n(state, width * width, 0.0F);
  for (std::int64_t t = 0; t < c.sequence; ++t) {
    const std::int64_t number = t * c.value_heads + head;
    const std::int64_t key = (t * c.key_heads + head / (c.value_heads / c.key_heads)) * width;
    const float *q = at.q.as<float>() + key, *k = at.k.as<float>() + key, *v = at.v.as<float>() + number * width;
    const float decay = std::exp(at.g.as<float>()[number]), rate = at.beta.as<float>()[number];
    std::copy_n(v, width, error);
    std::fill_n(result, width, 0.0F);
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        state[i * width + j] *= decay;
        error[j] -= state[i * width + j] * k[i];
      }
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        state[i * width + j] += k[i] * (rate * error[j]);
        result[j] += state[i * width + j] * q[i];
      }
    float* o = at.o.as<float>() + number * width;
    for (std::int64_t j = 0; j < width; ++j) o[j] = result[j] * at.options.scale;
  }
}

double recurrence_seconds(const Operands& at, ThreadTeam& team) {
  const std::int64_t width = at.sizes.width;
  std::vector<std::vector<float>> memory(static_cast<std::size_t>(team.size()),
                                         std::vector<float>(static_cast<std::size_t>(width * width + 2 * width)));
  return millrace::benchmarks::seconds_of([&] {
    team.run([&](int thread, int threads) {
      float* state = memory[static_cast<std::size_t>(thread)].data();
      for (std::int64_t head = thread; head < at.sizes.value_heads; head += threads)
        recurrence(at, head, state, state + width * width, state + width * width + width);
    });
  });
}

void run_forward(const ExecutionContext& context, const Operands& at) {
  gated_delta_rule_forward(context, at.q, at.k, at.v, at.g, at.beta, at.segments, at.options, at.o, at.scratch.bytes());
}

void run_gradient(const ExecutionContext& context, const Operands& at) {
  gated_delta_rule_input_gradient(context, at.d_o, at.q, at.k, at.v, at.g, at.beta, at.segments, at.options, at.dq, at.dk, at.dv, at.dg,
                                  at.dbeta, at.scratch.bytes());
}

struct Seconds {
  double forward, gradient;
};

Seconds seconds_of(const ExecutionContext& context, const Operands& at) {
  return {millrace::benchmarks::seconds_of([&] { run_forward(context, at); }),
          millrace::benchmarks::seconds_of([&] { run_gradient(context, at); })};
}

/// The largest difference of an element of the fp32 tensor, relative to the largest expected element.
double distance_of(const Tensor& found, const Tensor& expected) {
  double difference = 0, largest = 0;
  for (std::int64_t i = 0; i < expected.elements(); ++i) {
    difference = std::max(difference, std::abs(double{found.as<float>()[i]} - expected.as<float>()[i]));
    largest = std::max(largest, std::abs(double{expected.as<float>()[i]}));
  }
  return difference / largest;
}

struct Distances {
  double forward, gradient;  // the latter: of the gradient that is farthest
};

/// How far the chunks are from the recurrence token by token in double, which the reference computes.
Distances distances_of(ThreadTeam& team, const Case& c) {
  const ExecutionContext fast(team), reference(team, Implementation::reference);
  const Operands found(c, team.size()), expected(c, team.size());
  run_forward(fast, found);
  run_gradient(fast, found);
  run_forward(reference, expected);
  run_gradient(reference, expected);
  double gradient = 0;
  for (const auto each : {&Operands::dq, &Operands::dk, &Operands::dv, &Operands::dg, &Operands::dbeta})
    gradient = std::max(gradient, distance_of(found.*each, expected.*each));
  return {distance_of(found.o, expected.o), gradient};
}

void measure(const ExecutionContext& context, const Case& c) {
  const Operands at(c, context.threads());
  const auto [forward, gradient] = seconds_of(context, at);
  const GatedDeltaRuleFlops flops = gated_delta_rule_flops(c.sequence, c.key_heads, c.value_heads, at.options);
  const auto thousands = [&](double seconds) { return static_cast<double>(c.sequence) / seconds * 1e-3; };
  fmt::print("{:5} {:3} {:3} {:4}  {:4}   {:9.2f} {:9.1f} {:8.1f}   {:9.2f} {:9.1f} {:8.1f}", c.sequence, c.key_heads, c.value_heads,
             c.width, to_string(c.dtype), forward * 1e3, thousands(forward), flops.forward / forward * 1e-9, gradient * 1e3,
             thousands(gradient), flops.gradient / gradient * 1e-9);
  if (c.dtype == DType::f32) {
    const double plain = recurrence_seconds(at, context.team());
    fmt::print("   {:9.2f} {:8.2f}", plain * 1e3, plain / forward);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  ThreadTeam team(millrace::benchmarks::threads_from(argc, argv));
  const ExecutionContext context(team);
  if (argc > 2 && std::string_view(argv[2]) == "json") {
    const auto [forward, gradient] = seconds_of(context, Operands({2048, 16, 32, 128, DType::f32}, context.threads()));
    const Distances distances = distances_of(team, {2048, 1, 2, 128, DType::f32});  // heads are alike, and the reference is slow
    fmt::print("{{\"forward_ms\": {:.2f}, \"step_ms\": {:.2f}, \"forward_distance\": {:.3g}, \"gradient_distance\": {:.3g}}}\n",
               forward * 1e3, (forward + gradient) * 1e3, distances.forward, distances.gradient);
    return 0;
  }
  fmt::print("{} threads\n    S  Hk  Hv    D  type  forward ms  k tok/s  GFLOP/s  gradient ms  k tok/s  GFLOP/s  recurrence ms   ratio\n",
             team.size());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t sequence : {256, 512, 2048, 8192}) measure(context, {sequence, 4, 8, 128, dtype});
    measure(context, {2048, 16, 32, 128, dtype});
    measure(context, {2048, 8, 8, 64, dtype});
  }
  return 0;
}
