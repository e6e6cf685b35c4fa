#include "kernels/peak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "kernels/base/buffer.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels {
namespace {

struct DataSheet {
  std::string_view model;    // a word of the device's name
  std::string_view variant;  // another one; empty: any
  double bf16, tf32, fp32;
};
// The first that fits counts.
constexpr std::array<DataSheet, 8> data_sheets = {{{"H100", "PCIe", 756e12, 378e12, 51.2e12},
                                                   {"H100", "NVL", 0, 0, 0},  // slower than the others of that name
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

double measured_peak_flops(DType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t size = 512;
  const Shape shape{size, size};
  Buffer memory(3 * size * size * sizeof(float));
  const Tensor a{memory.data(), dtype, shape}, b{memory.data() + size * size * sizeof(float), dtype, shape};
  const Tensor c{memory.data() + 2 * size * size * sizeof(float), dtype, shape};
  ThreadTeam team(1);
  const Stream stream(team);
  const MatmulOptions options{.transpose_b = true};
  Buffer scratch(std::max<std::size_t>(1, matmul_scratch_bytes(shape, shape, dtype, dtype, options, 1)));
  double best = 1;
  matmul(stream, a, b, c, options, scratch.bytes());
  for (const auto end = Clock::now() + std::chrono::milliseconds(60); Clock::now() < end;) {
    const auto begin = Clock::now();
    matmul(stream, a, b, c, options, scratch.bytes());
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * size * size * size / best;
}

}  // namespace millrace::kernels
