#include "kernels/base/dot_product_rate.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace millrace::kernels {

#if defined(__x86_64__)
namespace {

// Sixteen independent sums hide the latency of either instruction.
#define MILLRACE_SIXTEEN(instruction)                                                                                                  \
  instruction                                                                                                                          \
      " %%zmm16, %%zmm17, %%zmm0\n" instruction " %%zmm16, %%zmm17, %%zmm1\n" instruction " %%zmm16, %%zmm17, %%zmm2\n" instruction    \
      " %%zmm16, %%zmm17, %%zmm3\n" instruction " %%zmm16, %%zmm17, %%zmm4\n" instruction " %%zmm16, %%zmm17, %%zmm5\n" instruction    \
      " %%zmm16, %%zmm17, %%zmm6\n" instruction " %%zmm16, %%zmm17, %%zmm7\n" instruction " %%zmm16, %%zmm17, %%zmm8\n" instruction    \
      " %%zmm16, %%zmm17, %%zmm9\n" instruction " %%zmm16, %%zmm17, %%zmm10\n" instruction " %%zmm16, %%zmm17, %%zmm11\n" instruction  \
      " %%zmm16, %%zmm17, %%zmm12\n" instruction " %%zmm16, %%zmm17, %%zmm13\n" instruction " %%zmm16, %%zmm17, %%zmm14\n" instruction \
      " %%zmm16, %%zmm17, %%zmm15\n"
#define MILLRACE_ZEROED "vpxord %%zmm16, %%zmm16, %%zmm16\n vpxord %%zmm17, %%zmm17, %%zmm17\n"
#define MILLRACE_TOUCHED                                                                                                                \
  "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", \
      "zmm16", "zmm17"

constexpr int kRounds = 64;

__attribute__((target("avx512f"))) void multiply_adds() {
  for (int round = 0; round < kRounds; ++round) asm volatile(MILLRACE_ZEROED MILLRACE_SIXTEEN("vfmadd231ps") : : : MILLRACE_TOUCHED);
}
__attribute__((target("avx512f"))) void dot_products() {
  for (int round = 0; round < kRounds; ++round) asm volatile(MILLRACE_ZEROED MILLRACE_SIXTEEN("vdpbf16ps") : : : MILLRACE_TOUCHED);
}

double seconds(void (*loop)()) {
  const auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < 4; ++repeat) loop();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double bf16_dot_product_rate() {
  double adds = std::numeric_limits<double>::infinity(), products = adds;
  for (int turn = 0; turn < 24; ++turn) {
    adds = std::min(adds, seconds(&multiply_adds));
    products = std::min(products, seconds(&dot_products));
  }
  return adds / products;
}
#else
double bf16_dot_product_rate() { return 0; }
#endif

}  // namespace millrace::kernels
