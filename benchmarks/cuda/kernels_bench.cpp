// cuda_kernels_bench [--small] [--only WORD] [--tokens N] [--seconds S] [--algorithms FILE]: the hot kernels of
// configs/runs/cuda-1b.toml on the first GPU. Each is timed on the device between two events without intermediate waits; the
// output has medians and the fraction of the data sheet's peak. --small: tiny sizes, for the emulation. --algorithms: the file of
// measured algorithms, as for cuda.algorithms; the default is the library's first suggestion. FLOPs are those of the matrix
// products alone (attention: of the unmasked pairs, 2 products forward and 5 backward; the head: 3 for its gradients); bytes are
// the minimum that must be read and written.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/peak.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/transfer.hpp"

namespace {

using namespace millrace::kernels;

/// Peaks of dense matrix products and memory from the data sheet: FLOP/s and byte/s. Zero: not known.
struct Peak {
  double bf16 = 0, fp32 = 0, memory = 0;
};

Peak peak_of(const DeviceDescription& device) {
  constexpr std::pair<std::string_view, double> memories[] = {{"H200", 4.8e12}, {"H100 PCIe", 2e12}, {"H100", 3.35e12}, {"80GB", 2.039e12}};
  Peak peak{device_peak_flops(device, DType::bf16, false), device_peak_flops(device, DType::f32, false)};
  for (const auto& [name, bandwidth] : memories)
    if (peak.bf16 > 0 && peak.memory == 0 && device.name.find(name) != std::string::npos) peak.memory = bandwidth;
  return peak;
}

// -- the bench ----------------------------------------------------------------------------------------------------------------------------

struct Sizes {
  std::int64_t tokens = 16384, sequence = 4096, hidden = 2048, kv = 512, mlp = 8192, vocabulary = 32768, square = 8192;
  std::int64_t parameters = 1'000'000'000;
};
constexpr Sizes kSmall{
    .tokens = 64, .sequence = 32, .hidden = 128, .kv = 32, .mlp = 256, .vocabulary = 512, .square = 64, .parameters = 200'000};

class Bench {
 public:
  Bench(DeviceContext& queue, Peak peak, double seconds, std::string only)
      : queue_(queue), context_(team_, Implementation::fast, &queue), peak_(peak), seconds_(seconds), only_(std::move(only)) {}

  [[nodiscard]] const ExecutionContext& context() const noexcept { return context_; }

  /// Device memory with numbers of both signs, since products of zeros are faster than others.
  Tensor tensor(DType dtype, Shape shape) {
    Tensor made{nullptr, dtype, shape, MemorySpace::device};
    made.data = memory(made.bytes());
    fill(made);
    return made;
  }
  Tensor integers(std::int64_t count, std::int64_t modulus) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * 7919 % modulus);
    const Tensor made{memory(values.size() * sizeof(values[0])), DType::i32, {count}, MemorySpace::device};
    write_now(queue_.device(), made.data, std::as_bytes(std::span(values)));
    return made;
  }
  Scratch scratch(std::size_t bytes) { return {memory(std::max<std::size_t>(bytes, 1)), std::max<std::size_t>(bytes, 1)}; }
  /// Frees the memory of a case.
  void release() { buffers_.clear(); }

  [[nodiscard]] bool wanted(const std::string& name) const { return name.find(only_) != std::string::npos; }
  void products(const std::string& name, DType dtype, double flops, const std::function<void()>& body) {
    tell(name, body, flops, 1e12, "TFLOP/s", dtype == DType::bf16 ? peak_.bf16 : peak_.fp32);
  }
  void traffic(const std::string& name, double bytes, const std::function<void()>& body) {
    tell(name, body, bytes, 1e9, "GB/s", peak_.memory);
  }

 private:
  std::byte* memory(std::size_t bytes) {
    return buffers_.emplace_back(std::max<std::size_t>(bytes, 1), queue_.device(), MemorySpace::device).data();
  }

  void fill(const Tensor& made) {
    const auto block = std::min<std::size_t>(made.bytes(), std::size_t{4} << 20);
    std::vector<std::byte> values(block);
    std::uint64_t seed = 1;
    for (std::size_t i = 0; i < block / size_of(made.dtype); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const float value = 0.05F * (static_cast<float>(seed >> 40) / 8388608.0F - 1.0F);
      const BFloat16 rounded = to_bfloat16(value);
      if (made.dtype == DType::bf16)
        std::memcpy(values.data() + i * sizeof(rounded), &rounded, sizeof(rounded));
      else if (made.dtype == DType::f32)
        std::memcpy(values.data() + i * sizeof(value), &value, sizeof(value));
    }
    write_now(queue_.device(), made.data, values);
    for (std::size_t done = block; done < made.bytes();) {
      const auto more = std::min(done, made.bytes() - done);
      queue_.copy(StreamKind::compute, made.data + done, made.data, more);
      done += more;
    }
  }

  /// Device time of one call in ms, median of five rounds.
  double milliseconds(const std::function<void()>& body) {
    body();  // chooses the algorithms
    queue_.drain();
    const auto round = [&](int calls) {
      begin_.record(queue_, StreamKind::compute);
      for (int i = 0; i < calls; ++i) body();
      end_.record(queue_, StreamKind::compute);
      while (!end_.complete()) std::this_thread::yield();
      return static_cast<double>(end_.since(begin_)) / calls;
    };
    const int calls = std::clamp(static_cast<int>(seconds_ * 1e3 / 5 / std::max(round(1), 1e-3)), 1, 1000);
    std::vector<double> rounds;
    for (int i = 0; i < 5; ++i) rounds.push_back(round(calls));
    queue_.check("a benchmark");
    std::ranges::sort(rounds);
    return std::max(rounds[2], 1e-6);
  }

  void tell(const std::string& name, const std::function<void()>& body, double work, double unit, const char* of, double peak) {
    const double ms = milliseconds(body), rate = work / (ms * 1e-3);
    fmt::print("{:<58} {:>10.4f} ms {:>9.1f} {:<7} {}\n", name, ms, rate / unit, of,
               peak > 0 ? fmt::format("{:>5.1f} % of the data sheet's {:g}", 100 * rate / peak, peak / unit) : "peak not known");
    std::fflush(stdout);
  }

  ThreadTeam team_{1};
  DeviceContext& queue_;
  ExecutionContext context_;
  Peak peak_;
  double seconds_;
  std::string only_;
  Event begin_{queue_, true}, end_{queue_, true};
  std::vector<Buffer> buffers_;
};

// -- the cases ----------------------------------------------------------------------------------------------------------------------------

void matmul_case(Bench& bench, const std::string& what, std::int64_t m, std::int64_t n, std::int64_t k, DType operands, DType result,
                 MatmulOptions options) {
  const auto name = fmt::format("matmul {} {} x {} x {} {} -> {}", what, m, n, k, to_string(operands), to_string(result));
  if (!bench.wanted(name)) return;
  const Tensor a = bench.tensor(operands, options.transpose_a ? Shape{k, m} : Shape{m, k});
  const Tensor b = bench.tensor(operands, options.transpose_b ? Shape{n, k} : Shape{k, n});
  const Tensor c = bench.tensor(result, {m, n});
  const Scratch scratch = bench.scratch(matmul_scratch_bytes(a.shape, b.shape, operands, result, options, bench.context().processor()));
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  bench.products(name, operands, flops, [&] { matmul(bench.context(), a, b, c, options, scratch); });
  bench.release();
}

void matmuls(Bench& bench, const Sizes& sizes) {
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const std::int64_t t = sizes.tokens, d = sizes.hidden;
  struct Weight {
    const char* name;
    std::int64_t out, in;
  };
  for (const Weight& weight : {Weight{"q, o", d, d}, {"k, v", sizes.kv, d}, {"gate, up", sizes.mlp, d}, {"down", d, sizes.mlp}}) {
    matmul_case(bench, fmt::format("forward {}", weight.name), t, weight.out, weight.in, bf16, bf16, {.transpose_b = true});
    matmul_case(bench, fmt::format("dx {}", weight.name), t, weight.in, weight.out, bf16, bf16, {});
    matmul_case(bench, fmt::format("dw {}", weight.name), weight.out, weight.in, t, bf16, f32, {.transpose_a = true, .accumulate = true});
  }
  matmul_case(bench, "square", sizes.square, sizes.square, sizes.square, bf16, bf16, {.transpose_b = true});
  matmul_case(bench, "square", sizes.square / 2, sizes.square / 2, sizes.square / 2, f32, f32, {.transpose_b = true});
}

void attention(Bench& bench, const Sizes& sizes, std::int64_t width) {
  const auto name = fmt::format("attention S {} D {}", sizes.sequence, width);
  if (!bench.wanted(name)) return;
  const std::int64_t t = sizes.tokens, heads = std::max<std::int64_t>(sizes.hidden / width, 1),
                     kv_heads = std::max<std::int64_t>(heads / 4, 1);
  const AttentionOptions options{.sequence = sizes.sequence, .scale = 0.125F, .one_segment = true};
  const Shape q_shape{t, heads, width}, k_shape{t, kv_heads, width};
  constexpr auto bf16 = DType::bf16;
  const Tensor q = bench.tensor(bf16, q_shape), o = bench.tensor(bf16, q_shape), d_o = bench.tensor(bf16, q_shape),
               dq = bench.tensor(bf16, q_shape);
  const Tensor k = bench.tensor(bf16, k_shape), v = bench.tensor(bf16, k_shape), dk = bench.tensor(bf16, k_shape),
               dv = bench.tensor(bf16, k_shape);
  const Tensor segments = bench.integers(t, 1), log_sum_exp = bench.tensor(DType::f32, {t, heads});
  const Scratch scratch = bench.scratch(attention_scratch_bytes(q_shape, k_shape, bf16, options, bench.context().processor()));
  const double product =
      2.0 * attention_pairs(options) * static_cast<double>(t / sizes.sequence) * static_cast<double>(heads) * static_cast<double>(width);
  bench.products(fmt::format("{} forward, {} heads of {}", name, heads, kv_heads), bf16, 2 * product,
                 [&] { attention_forward(bench.context(), q, k, v, segments, options, o, log_sum_exp, scratch); });
  bench.products(fmt::format("{} backward, {} heads of {}", name, heads, kv_heads), bf16, 5 * product,
                 [&] { attention_input_gradient(bench.context(), d_o, q, k, v, o, log_sum_exp, segments, options, dq, dk, dv, scratch); });
  bench.release();
}

void head(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("head")) return;
  constexpr auto bf16 = DType::bf16;
  const Tensor h = bench.tensor(bf16, {sizes.tokens, sizes.hidden}), w = bench.tensor(bf16, {sizes.vocabulary, sizes.hidden});
  const Tensor dh = bench.tensor(bf16, h.shape), dw = bench.tensor(DType::f32, w.shape), g = bench.tensor(DType::f32, {1});
  const Tensor targets = bench.integers(sizes.tokens, sizes.vocabulary), log_sum_exp = bench.tensor(DType::f32, {sizes.tokens});
  const Tensor loss{bench.scratch(2 * sizeof(double)).data(), DType::f64, {2}, MemorySpace::device};
  const CrossEntropyOptions options;
  const Scratch scratch = bench.scratch(linear_cross_entropy_scratch_bytes(h.shape, w.shape, bf16, options, bench.context().processor()));
  const double product =
      2.0 * static_cast<double>(sizes.tokens) * static_cast<double>(sizes.vocabulary) * static_cast<double>(sizes.hidden);
  bench.products(fmt::format("head forward {} x {} x {}", sizes.tokens, sizes.vocabulary, sizes.hidden), bf16, product,
                 [&] { linear_cross_entropy_forward(bench.context(), h, w, targets, options, loss, log_sum_exp, scratch); });
  bench.products(fmt::format("head gradients {} x {} x {}", sizes.tokens, sizes.vocabulary, sizes.hidden), bf16, 3 * product,
                 [&] { linear_cross_entropy_gradients(bench.context(), h, w, targets, g, options, dh, loss, log_sum_exp, dw, scratch); });
  bench.release();
}

void pointwise(Bench& bench, const Sizes& sizes) {
  constexpr auto bf16 = DType::bf16, f32 = DType::f32;
  const std::int64_t t = sizes.tokens, d = sizes.hidden;
  const double narrow = 2.0 * static_cast<double>(t) * static_cast<double>(d),
               wide = 2.0 * static_cast<double>(t) * static_cast<double>(sizes.mlp);
  const ExecutionContext& context = bench.context();
  if (bench.wanted("rms_norm")) {
    const Tensor x = bench.tensor(bf16, {t, d}), y = bench.tensor(bf16, {t, d}), dx = bench.tensor(bf16, {t, d});
    const Tensor w = bench.tensor(f32, {d}), dw = bench.tensor(f32, {d}), r = bench.tensor(f32, {t});
    const RmsNormOptions options{.epsilon = 1e-5F};
    const std::string size = fmt::format("{} x {}", t, d);
    bench.traffic("rms_norm forward " + size, 2 * narrow, [&] { rms_norm_forward(context, x, w, options, y, r); });
    bench.traffic("rms_norm dx " + size, 3 * narrow, [&] { rms_norm_input_gradient(context, y, x, w, r, options, dx); });
    bench.traffic("rms_norm dw " + size, 2 * narrow, [&] { rms_norm_weight_gradient(context, y, x, r, dw); });
    bench.release();
  }
  if (bench.wanted("swiglu")) {
    const Shape shape{t, sizes.mlp};
    const Tensor gate = bench.tensor(bf16, shape), up = bench.tensor(bf16, shape), y = bench.tensor(bf16, shape);
    const Tensor d_gate = bench.tensor(bf16, shape), d_up = bench.tensor(bf16, shape);
    const std::string size = fmt::format("{} x {}", t, sizes.mlp);
    bench.traffic("swiglu forward " + size, 3 * wide, [&] { glu_forward(context, Activation::silu, gate, up, y); });
    bench.traffic("swiglu backward " + size, 5 * wide, [&] { glu_input_gradient(context, Activation::silu, y, gate, up, d_gate, d_up); });
    bench.release();
  }
  if (bench.wanted("rope")) {
    const std::int64_t width = std::min<std::int64_t>(64, d);
    const Tensor x = bench.tensor(bf16, {t, d / width, width}), frequencies = bench.tensor(f32, {width / 2});
    const Tensor positions = bench.integers(t, sizes.sequence);
    bench.traffic(fmt::format("rope {} x {} x {}", t, d / width, width), 2 * narrow,
                  [&] { rope(context, x, positions, frequencies, {}, x); });
    bench.release();
  }
}

void optimizer(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("adamw")) return;
  const Shape shape{sizes.mlp, sizes.hidden};
  std::vector<OptimizerTensors> tensors;
  std::int64_t parameters = 0;
  for (; parameters < sizes.parameters; parameters += shape.elements()) {
    OptimizerTensors one;
    for (Tensor* const each : {&one.parameter, &one.states[0], &one.states[1], &one.gradient}) *each = bench.tensor(DType::f32, shape);
    one.copy = bench.tensor(DType::bf16, shape);
    tensors.push_back(one);
  }
  AdamwScalars scalars;
  scalars.learning_rate = 1e-6;
  // p, m, v and the gradient are read and written, the copy is written.
  bench.traffic(fmt::format("adamw {:.3f} G parameters in {} tensors", static_cast<double>(parameters) * 1e-9, tensors.size()),
                34.0 * static_cast<double>(parameters), [&] { adamw(bench.context(), scalars, tensors); });
  bench.release();
}

void copies(Bench& bench, const Sizes& sizes) {
  if (!bench.wanted("copy")) return;
  const Tensor from = bench.tensor(DType::bf16, {8 * sizes.tokens, sizes.hidden}), to = bench.tensor(DType::bf16, from.shape);
  bench.traffic(fmt::format("copy of {} MiB", from.bytes() >> 20), 2.0 * static_cast<double>(from.bytes()),
                [&] { bench.context().device_context().copy(StreamKind::compute, to.data, from.data, from.bytes()); });
  bench.release();
}

int run(int count, char** arguments) {
  Sizes sizes;
  DeviceOptions options;
  std::string only;
  double seconds = 0.5;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    const auto value = [&] {
      if (++i == count) millrace::fail(millrace::ExitCode::usage, "cuda_kernels_bench", "nothing behind {}", word);
      return arguments[i];
    };
    if (word == "--small")
      sizes = kSmall, seconds = 0;
    else if (word == "--only")
      only = value();
    else if (word == "--tokens")
      sizes.tokens = std::max(std::atoll(value()) / sizes.sequence * sizes.sequence, static_cast<long long>(sizes.sequence));
    else if (word == "--seconds")
      seconds = std::atof(value());
    else if (word == "--algorithms")
      options.choices = value();
    else
      millrace::fail(millrace::ExitCode::usage, "cuda_kernels_bench",
                     "{}, expected --small, --only WORD, --tokens N, --seconds S or --algorithms FILE", word);
  }
  if (const std::string why = why_no_cuda(); !why.empty()) {
    fmt::print("no device: {}\n", why);
    return 0;
  }
  const DeviceDescription device = cuda_devices().front();
  fmt::print("device {}: {}, {:.1f} GiB, compute capability {}.{} | {}\n", to_string(device.device), device.name,
             static_cast<double>(device.total_bytes) * 0x1p-30, device.major, device.minor, device_type(device.device).libraries());
  const auto context = make_context(device.device, options);
  Bench bench(*context, peak_of(device), seconds, only);
  matmuls(bench, sizes);
  for (const std::int64_t width : {64, 128}) attention(bench, sizes, std::min(width, sizes.hidden));
  head(bench, sizes);
  pointwise(bench, sizes);
  optimizer(bench, sizes);
  copies(bench, sizes);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
