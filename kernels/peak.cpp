#include "kernels/peak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "kernels/base/buffer.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels {
namespace {

struct DataSheet {
  std::string_view model;    // a word of the device's name
  std::string_view variant;  // another word; empty: any device of the model
  double bf16, tf32, fp32;
};
// The first match counts.
constexpr std::array<DataSheet, 8> data_sheets = {{{"H100", "PCIe", 756e12, 378e12, 51.2e12},
                                                   {"H100", "NVL", 0, 0, 0},  // slower than the other devices of that name
                                                   {"H200", "NVL", 0, 0, 0},
                                                   {"H100", "", 989e12, 494.7e12, 66.9e12},
                                                   {"H200", "", 989e12, 494.7e12, 66.9e12},
                                                   {"A100", "", 312e12, 156e12, 19.5e12},
                                                   {"L40S", "", 362e12, 183e12, 91.6e12},
                                                   {"B200", "", 2250e12, 1100e12, 75e12}}};

/// "A100-SXM4-80GB" has the words A100, SXM4 and 80GB.
bool has_word(std::string_view name, std::string_view word) {
  const auto ends = [&](std::size_t at) { return at >= name.size() || name[at] == ' ' || name[at] == '-'; };
  for (auto at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1))
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  return false;
}

/// Numbers in [−1, 1) whose bits are as mixed as those of real operands: processors multiply zeros faster, by half with tile registers.
void fill(const Tensor& tensor) {
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
    if (tensor.dtype == DType::bf16)
      tensor.as<BFloat16>()[i] = to_bfloat16(value);
    else
      tensor.as<float>()[i] = value;
  }
}

}  // namespace

double device_peak_flops(const DeviceDescription& device, DType dtype, bool tf32) {
  if (has_word(device.name, "MIG")) return 0;
  for (const auto& sheet : data_sheets) {
    if (!has_word(device.name, sheet.model) || !(sheet.variant.empty() || has_word(device.name, sheet.variant))) continue;
    if (dtype == DType::bf16) return sheet.bf16;
    if (dtype == DType::f32) return tf32 ? sheet.tf32 : sheet.fp32;
    return 0;
  }
  return 0;
}

double measured_peak_flops(DType dtype, int threads) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr std::int64_t smallest = 1024, largest = 4096;
  constexpr Seconds budget(0.05);       // per size, for at least three products
  constexpr Seconds long_enough(0.02);  // a product that takes this long is large enough: a larger one would not be faster
  ThreadTeam team(threads);
  const ExecutionContext context(team);
  const MatmulOptions options{.transpose_b = true};
  double peak = 0;
  for (std::int64_t size = smallest; size <= largest; size *= 2) {
    const Shape shape{size, size};
    const auto bytes = static_cast<std::size_t>(size * size) * size_of(dtype);
    const Buffer memory(3 * bytes);
    const Buffer scratch(std::max<std::size_t>(1, matmul_scratch_bytes(shape, shape, dtype, dtype, options, threads)));
    const Tensor a{memory.data(), dtype, shape}, b{memory.data() + bytes, dtype, shape}, c{memory.data() + 2 * bytes, dtype, shape};
    const auto multiply = [&] {
      const auto begin = Clock::now();
      matmul(context, a, b, c, options, scratch.bytes());
      return Seconds(Clock::now() - begin);
    };
    fill(a);
    fill(b);
    std::memset(c.data, 0, bytes);  // the system maps all pages that were never written to the same one
    multiply();
    Seconds best = multiply();
    const auto end = Clock::now() + budget;
    for (int products = 1; products < 3 || Clock::now() < end; ++products) best = std::min(best, multiply());
    peak = std::max(peak, 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) / best.count());
    if (best >= long_enough) break;
  }
  return peak;
}

}  // namespace millrace::kernels
