// pointwise_bench [threads]: minimum and median milliseconds, and GB/s at the minimum, of memory-bound operations on 2048 tokens
// of width 512 (swiglu 1408), beside the GB/s of a plain copy that moves as many bytes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "benchmarks/kernels/plain_copy.hpp"
#include "kernels/activation.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

namespace {

using namespace millrace::kernels;

constexpr std::int64_t kTokens = 2048, kWidth = 512, kHidden = 1408, kHeads = 8;

template <class Body>
void report(const ExecutionContext& context, const char* name, DType dtype, double bytes, Body&& body) {
  std::array<double, 51> seconds{};
  for (double& of_one : seconds) {
    const auto start = std::chrono::steady_clock::now();
    body();
    of_one = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:26} {:4} {:8.3f} {:8.3f} ms {:7.1f} GB/s, copy {:7.1f} GB/s\n", name, to_string(dtype), seconds[0] * 1e3, seconds[25] * 1e3,
             bytes / seconds[0] * 1e-9, millrace::benchmarks::copy_rate(context.team(), bytes));
}

// Tensors of ones, since the time does not depend on the values.
class Memory {
 public:
  Tensor tensor(DType dtype, const Shape& shape) {
    Tensor result{nullptr, dtype, shape, MemorySpace::host};
    buffers_.emplace_back(result.bytes());
    result.data = buffers_.back().data();
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      if (dtype == DType::bf16)
        result.as<BFloat16>()[i] = to_bfloat16(1.0F);
      else if (dtype == DType::f32)
        result.as<float>()[i] = 1.0F;
      else
        result.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 512);
    }
    return result;
  }

 private:
  std::vector<Buffer> buffers_;
};

void measure(const ExecutionContext& context, DType dtype) {
  Memory memory;
  const auto size = static_cast<double>(size_of(dtype));
  const Tensor x = memory.tensor(dtype, {kTokens, kWidth}), y = memory.tensor(dtype, {kTokens, kWidth}),
               dy = memory.tensor(dtype, {kTokens, kWidth});
  const Tensor w = memory.tensor(DType::f32, {kWidth}), r = memory.tensor(DType::f32, {kTokens});
  const double row_bytes = size * kTokens * kWidth;
  report(context, "rms_norm forward", dtype, 2 * row_bytes, [&] { rms_norm_forward(context, x, w, {1e-5F}, y, r); });
  report(context, "rms_norm input gradient", dtype, 3 * row_bytes, [&] { rms_norm_input_gradient(context, dy, x, w, r, {1e-5F}, y); });
  report(context, "rms_norm weight gradient", dtype, 2 * row_bytes, [&] { rms_norm_weight_gradient(context, dy, x, r, w); });
  const Shape heads{kTokens, kHeads, kWidth / kHeads};
  const Tensor qx = memory.tensor(dtype, heads), positions = memory.tensor(DType::i32, {kTokens}),
               frequencies = memory.tensor(DType::f32, {kWidth / kHeads / 2});
  for (std::int64_t i = 0; i < kWidth / kHeads / 2; ++i)  // realistic angles, since the time of a library's sine depends on the angle
    frequencies.as<float>()[i] = std::pow(10000.0F, -2.0F * static_cast<float>(i * kHeads) / static_cast<float>(kWidth));
  report(context, "rope", dtype, 2 * row_bytes, [&] { rope(context, qx, positions, frequencies, {}, qx); });
  const Shape hidden{kTokens, kHidden};
  const Tensor gate = memory.tensor(dtype, hidden), up = memory.tensor(dtype, hidden), out = memory.tensor(dtype, hidden);
  const Tensor d_gate = memory.tensor(dtype, hidden), d_up = memory.tensor(dtype, hidden);
  const double hidden_bytes = size * kTokens * kHidden;
  report(context, "swiglu forward", dtype, 3 * hidden_bytes, [&] { glu_forward(context, Activation::silu, gate, up, out); });
  report(context, "swiglu input gradient", dtype, 5 * hidden_bytes,
         [&] { glu_input_gradient(context, Activation::silu, out, gate, up, d_gate, d_up); });
  report(context, "geglu forward", dtype, 3 * hidden_bytes, [&] { glu_forward(context, Activation::gelu, gate, up, out); });
  report(context, "geglu input gradient", dtype, 5 * hidden_bytes,
         [&] { glu_input_gradient(context, Activation::gelu, out, gate, up, d_gate, d_up); });
}

}  // namespace

int main(int argc, char** argv) {
  ThreadTeam team(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2);
  const ExecutionContext context(team);
  measure(context, DType::f32);
  measure(context, DType::bf16);
  return 0;
}
