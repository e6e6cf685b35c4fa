#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/peak.hpp"
#include "kernels/transfer.hpp"

namespace millrace::benchmarks::cuda {

using namespace millrace::kernels;

/// Peaks of dense matrix products and memory from the data sheet: FLOP/s and byte/s. Zero: not known.
struct Peak {
  double bf16 = 0, fp32 = 0, memory = 0;
};

inline Peak peak_of(const DeviceDescription& device) {
  constexpr std::pair<std::string_view, double> memories[] = {{"H200", 4.8e12}, {"H100 PCIe", 2e12}, {"H100", 3.35e12}, {"80GB", 2.039e12}};
  Peak peak{device_peak_flops(device, DType::bf16, false), device_peak_flops(device, DType::f32, false)};
  for (const auto& [name, bandwidth] : memories)
    if (peak.bf16 > 0 && peak.memory == 0 && device.name.find(name) != std::string::npos) peak.memory = bandwidth;
  return peak;
}

struct Sizes {
  std::int64_t tokens = 16384, sequence = 4096, hidden = 2048, kv = 512, mlp = 8192, vocabulary = 32768, square = 8192;
  std::int64_t parameters = 1'000'000'000;
};
inline constexpr Sizes kSmall{
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
    return integers(values);
  }
  Tensor integers(const std::vector<std::int32_t>& values) {
    const Tensor made{
        memory(values.size() * sizeof(values[0])), DType::i32, {static_cast<std::int64_t>(values.size())}, MemorySpace::device};
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

/// The cases of each source file.
void measure_dense(Bench& bench, const Sizes& sizes);
void measure_experts(Bench& bench, const Sizes& sizes);
void measure_mixers(Bench& bench, const Sizes& sizes);
void measure_vocabulary(Bench& bench, const Sizes& sizes);
void measure_optimizers(Bench& bench, const Sizes& sizes);

}  // namespace millrace::benchmarks::cuda
